package anthropic

import (
	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/packages/respjson"

	"github.com/bridle-dev/bridle/model"
)

// usage holds the latest counts: each that the service sends is a total.
type usage struct {
	input, written, output int64
	cached                 *int64
}

func (u *usage) start(in sdk.Usage) {
	take(&u.input, in.InputTokens, in.JSON.InputTokens)
	take(&u.written, in.CacheCreationInputTokens, in.JSON.CacheCreationInputTokens)
	take(&u.output, in.OutputTokens, in.JSON.OutputTokens)
	u.read(in.CacheReadInputTokens, in.JSON.CacheReadInputTokens)
}

func (u *usage) update(in sdk.MessageDeltaUsage) {
	take(&u.input, in.InputTokens, in.JSON.InputTokens)
	take(&u.written, in.CacheCreationInputTokens, in.JSON.CacheCreationInputTokens)
	take(&u.output, in.OutputTokens, in.JSON.OutputTokens)
	u.read(in.CacheReadInputTokens, in.JSON.CacheReadInputTokens)
}

func take(to *int64, n int64, field respjson.Field) {
	if field.Valid() {
		*to = n
	}
}

func (u *usage) read(n int64, field respjson.Field) {
	if field.Valid() {
		u.cached = &n
	}
}

func (u *usage) total() model.Usage {
	t := model.Usage{Input: u.input + u.written, Output: u.output, CachedInput: u.cached}
	if u.cached != nil {
		t.Input += *u.cached
	}
	return t
}
