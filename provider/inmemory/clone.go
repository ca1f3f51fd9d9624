package inmemory

import (
	"bytes"
	"maps"
	"slices"

	"github.com/bridle-dev/bridle/provider"
)

// clone copies everything but the functions.
func (o Options) clone() Options {
	o.IDs = slices.Clone(o.IDs)
	o.Profiles = slices.Clone(o.Profiles)
	o.Extensions = slices.Clone(o.Extensions)
	o.Operations = maps.Clone(o.Operations)
	o.Reads = maps.Clone(o.Reads)
	o.ReadInfo = maps.Clone(o.ReadInfo)
	o.Events = maps.Clone(o.Events)
	o.Credentials = slices.Clone(o.Credentials)
	return o
}

func cloneResult(r *provider.CallResult) *provider.CallResult {
	if r == nil {
		return &provider.CallResult{}
	}
	return &provider.CallResult{Value: bytes.Clone(r.Value), Content: cloneContent(r.Content)}
}

func cloneContent(blocks []provider.Content) []provider.Content {
	out := slices.Clone(blocks)
	for i := range out {
		out[i].Data = bytes.Clone(out[i].Data)
		out[i].Audience = slices.Clone(out[i].Audience)
	}
	return out
}

// cloneRequest copies what the caller may reuse once the call returned.
func cloneRequest(req *provider.CallRequest) provider.CallRequest {
	r := *req
	r.Args = bytes.Clone(req.Args)
	r.Trace = maps.Clone(req.Trace)
	r.Progress, r.Task = nil, nil
	return r
}

func cloneEvent(e provider.Event) provider.Event {
	e.Payload = bytes.Clone(e.Payload)
	if e.Identity != nil {
		id := *e.Identity
		e.Identity = &id
	}
	return e
}
