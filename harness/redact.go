package harness

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/model"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/secrets"
)

// redactor replaces credentials in what a harness keeps and shows. What has none
// comes back as it is, sharing memory; nothing that is handed in changes.
type redactor struct{ *secrets.Scrubber }

// withheldPart stands in the place of bytes with a credential in them, which
// cannot be edited.
const withheldPart = "[binary content withheld: it holds a credential]"

// item returns an item of a conversation without credentials, and whether it had
// any. What a service wants back unread may be signed, so it is dropped as a whole.
func (r redactor) item(it model.Item) (clean model.Item, had bool) {
	clean = it
	clean.ID, clean.CallID, clean.Name, clean.Args = r.String(it.ID), r.String(it.CallID), r.String(it.Name), r.JSON(it.Args)
	had = clean.ID != it.ID || clean.CallID != it.CallID || clean.Name != it.Name || !bytes.Equal(clean.Args, it.Args)
	if !bytes.Equal(r.JSON(it.Data), it.Data) {
		clean.Data, had = nil, true
	}
	own := false
	for i := range it.Parts {
		p := r.part(it.Parts[i])
		if samePart(&p, &it.Parts[i]) {
			continue
		}
		if !own {
			clean.Parts, own, had = slices.Clone(it.Parts), true, true
		}
		clean.Parts[i] = p
	}
	return clean, had
}

func (r redactor) part(p model.Part) model.Part {
	if r.Bytes(p.Data) {
		return model.Part{Type: model.PartText, Text: withheldPart}
	}
	for _, text := range []*string{&p.Text, &p.MIMEType, &p.URL, &p.Name} {
		*text = r.String(*text)
	}
	return p
}

// samePart compares two parts of which one was made of the other.
func samePart(a, b *model.Part) bool {
	return a.Type == b.Type && a.Text == b.Text && a.MIMEType == b.MIMEType && a.URL == b.URL && a.Name == b.Name && len(a.Data) == len(b.Data)
}

// items returns items without credentials.
func (r redactor) items(all []model.Item) []model.Item {
	if r.Count() == 0 {
		return all
	}
	out, own := all, false
	for i := range all {
		clean, had := r.item(all[i])
		if !had {
			continue
		}
		if !own {
			out, own = slices.Clone(all), true
		}
		out[i] = clean
	}
	return out
}

// reply returns a model's answer without credentials: as it goes into the
// conversation, to tools, and to whoever asked.
func (r redactor) reply(m *model.Reply) *model.Reply {
	if m == nil || r.Count() == 0 {
		return m
	}
	clean := *m
	clean.ID, clean.Model, clean.Items = r.String(m.ID), r.String(m.Model), r.items(m.Items)
	return &clean
}

// tools returns what a model is told about tools without credentials.
func (r redactor) tools(all []model.Tool) []model.Tool {
	out := slices.Clone(all)
	for i := range out {
		out[i].Description, out[i].Args = r.String(out[i].Description), r.JSON(out[i].Args)
	}
	return out
}

// output returns the shape of an answer without credentials.
func (r redactor) output(o *model.Output) *model.Output {
	if o == nil || r.Count() == 0 {
		return o
	}
	return &model.Output{Name: r.String(o.Name), Schema: r.JSON(o.Schema)}
}

// scrubFault is Scrubber.Error for a fault.
func (h *AgentHarness) scrubFault(e *fault.Error) *fault.Error {
	if e == nil {
		return nil
	}
	return fault.From(h.scrubber.Error(e), e.Code)
}

// data returns the further facts of an event without credentials.
func (r redactor) data(facts map[string]any) map[string]any {
	if len(facts) == 0 || r.Count() == 0 {
		return facts
	}
	clean := make(map[string]any, len(facts))
	for name, fact := range facts {
		clean[r.String(name)] = r.fact(fact)
	}
	return clean
}

// fact looks at a value in the ways in which readers of events show it.
func (r redactor) fact(fact any) any {
	switch fact := fact.(type) {
	case nil, bool, int, int64, uint64, float64:
		return fact
	case string:
		return r.String(fact)
	case error:
		return r.Error(fact)
	case json.RawMessage:
		return r.JSON(fact)
	case provider.Identity:
		return provider.Identity{Surface: r.String(fact.Surface), Instance: r.String(fact.Instance), Epoch: r.String(fact.Epoch)}
	}
	text := fmt.Sprintf("%+v", fact)
	raw, _ := json.Marshal(fact)
	if clean := r.String(text); clean != text || r.Bytes(raw) {
		return clean
	}
	return fact
}
