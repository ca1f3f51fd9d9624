package anthropic

import (
	"encoding/base64"
	"fmt"
	"mime"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/model"
)

// block is a part of what the user's side says, or nil if there is nothing to
// say.
func block(p *model.Part) (*sdk.ContentBlockParamUnion, error) {
	var b sdk.ContentBlockParamUnion
	switch p.Type {
	case model.PartText, model.PartRefusal:
		if blank(p.Text) {
			return nil, nil
		}
		b = sdk.NewTextBlock(p.Text)
	case model.PartImage:
		b = image(p)
	case model.PartFile:
		return document(p)
	default:
		return nil, fmt.Errorf("a part of type %s cannot be sent to this service", fault.Quote(string(p.Type)))
	}
	return &b, nil
}

func image(p *model.Part) sdk.ContentBlockParamUnion {
	if len(p.Data) == 0 {
		return sdk.NewImageBlock(sdk.URLImageSourceParam{URL: p.URL})
	}
	return sdk.NewImageBlockBase64(p.MIMEType, base64.StdEncoding.EncodeToString(p.Data))
}

func document(p *model.Part) (*sdk.ContentBlockParamUnion, error) {
	media, _, err := mime.ParseMediaType(p.MIMEType)
	if err != nil {
		media = p.MIMEType
	}
	var b sdk.ContentBlockParamUnion
	switch {
	case len(p.Data) == 0 && p.URL != "":
		b = sdk.NewDocumentBlock(sdk.URLPDFSourceParam{URL: p.URL})
	case media == "application/pdf":
		b = sdk.NewDocumentBlock(sdk.Base64PDFSourceParam{Data: base64.StdEncoding.EncodeToString(p.Data)})
	case strings.HasPrefix(media, "text/") || media == "application/json":
		b = sdk.NewDocumentBlock(sdk.PlainTextSourceParam{Data: strings.ToValidUTF8(string(p.Data), "\uFFFD")})
	default:
		return nil, fmt.Errorf("a file of type %s cannot be sent to this service, only PDF and text", fault.Quote(p.MIMEType))
	}
	if p.Name != "" {
		b.OfDocument.Title = sdk.String(p.Name)
	}
	return &b, nil
}
