package scripted

import (
	"bytes"
	"slices"

	"github.com/bridle-dev/bridle/model"
)

// cloneRequest copies all that a caller could change later.
func cloneRequest(req *model.Request) model.Request {
	c := *req
	c.Items = cloneItems(req.Items)
	c.Tools = slices.Clone(req.Tools)
	for i := range c.Tools {
		c.Tools[i].Args = bytes.Clone(c.Tools[i].Args)
	}
	c.Params.Stop = slices.Clone(req.Params.Stop)
	c.Params.Temperature = clonePointer(req.Params.Temperature)
	c.Params.TopP = clonePointer(req.Params.TopP)
	c.Params.Seed = clonePointer(req.Params.Seed)
	if c.Output = clonePointer(req.Output); c.Output != nil {
		c.Output.Schema = bytes.Clone(c.Output.Schema)
	}
	return c
}

func cloneItems(items []model.Item) []model.Item {
	c := slices.Clone(items)
	for i := range c {
		c[i].Args = bytes.Clone(c[i].Args)
		c[i].Data = bytes.Clone(c[i].Data)
		c[i].Parts = slices.Clone(c[i].Parts)
		for j := range c[i].Parts {
			c[i].Parts[j].Data = bytes.Clone(c[i].Parts[j].Data)
		}
	}
	return c
}

func clonePointer[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}
