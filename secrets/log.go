package secrets

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
)

// Handler returns a handler that hands records on to next with every registered
// value replaced: in the message, in names and values of attributes, and in
// groups. A value that is no text and holds one, such as a struct, becomes a
// text. What a logger was given by With is looked at then, and not again when
// more values are registered.
func (s *Scrubber) Handler(next slog.Handler) slog.Handler { return &handler{s, next} }

type handler struct {
	scrubber *Scrubber
	next     slog.Handler
}

// Enabled implements slog.Handler.
func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	if h.scrubber.Count() == 0 {
		return h.next.Handle(ctx, r)
	}
	clean := slog.NewRecord(r.Time, r.Level, h.scrubber.String(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(h.scrubber.attr(a))
		return true
	})
	return h.next.Handle(ctx, clean)
}

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{h.scrubber, h.next.WithAttrs(h.scrubber.attrs(attrs))}
}

// WithGroup implements slog.Handler.
func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.scrubber, h.next.WithGroup(h.scrubber.String(name))}
}

func (s *Scrubber) attrs(attrs []slog.Attr) []slog.Attr {
	clean := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		clean[i] = s.attr(a)
	}
	return clean
}

func (s *Scrubber) attr(a slog.Attr) slog.Attr {
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindString:
		v = slog.StringValue(s.String(v.String()))
	case slog.KindGroup:
		v = slog.GroupValue(s.attrs(v.Group())...)
	case slog.KindAny:
		v = s.anyValue(v)
	}
	return slog.Attr{Key: s.String(a.Key), Value: v}
}

// anyValue looks at a value in all the ways in which handlers write one.
func (s *Scrubber) anyValue(v slog.Value) slog.Value {
	held := v.Any()
	switch held := held.(type) {
	case error:
		return slog.AnyValue(s.Error(held))
	case []byte:
		return slog.AnyValue([]byte(s.String(string(held))))
	}
	text := fmt.Sprintf("%+v", held)
	raw, _ := json.Marshal(held)
	if clean := s.String(text); clean != text || s.Bytes(raw) {
		return slog.StringValue(clean)
	}
	return v
}
