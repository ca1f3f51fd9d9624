package steps

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/internal/reflectschema"
	"github.com/bridle-dev/bridle/model"
)

// Structured asks the model for an answer that fits Out's JSON Schema, which
// is made from its fields and their json and jsonschema tags. An answer that
// does not is a model_parse_error.
func Structured[Out any](s CallModel) Typed[Out] {
	t := reflect.TypeFor[Out]()
	schema, err := reflectschema.Of(t)
	s.output = &model.Output{Name: outputName(t), Schema: schema.Text}
	return structured[Out]{CallModel: s, err: err}
}

type structured[Out any] struct {
	CallModel
	err error // of the schema
}

func (s structured[Out]) decode(out json.RawMessage) (Out, error) { return Decode[Out](out) }

func (s structured[Out]) check(r *report) {
	s.CallModel.check(r)
	if s.err != nil {
		r.invalid(s.err.Error(), "Use a type that encoding/json can read and write.")
	}
}

func (s structured[Out]) run(c Context, input json.RawMessage) (json.RawMessage, error) {
	out, err := s.CallModel.run(c, input)
	if err != nil {
		return nil, err
	}
	if _, err := Decode[Out](out); err != nil {
		return nil, &fault.Error{Code: fault.ModelParse, Step: string(c.path), Err: err}
	}
	return out, nil
}

// outputName makes the name of a type one that services accept.
func outputName(t reflect.Type) string {
	const limit = 64
	name, _, _ := strings.Cut(t.Name(), "[")
	name = strings.Map(func(c rune) rune {
		if toolNameRune(c) {
			return c
		}
		return '_'
	}, name)
	if name == "" {
		return "answer"
	}
	return name[:min(len(name), limit)]
}
