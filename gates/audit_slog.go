package gates

import (
	"context"
	"log/slog"

	"github.com/bridle-dev/bridle/fault"
)

// SlogSink writes records to a logger, with the message "call" and an attribute
// for each field that has a value: calls that succeeded and intents at level
// Info, failures at Warn. The handler's own level is passed over, since records
// are not chatter, and its error is the sink's.
func SlogSink(l *slog.Logger) Sink { return slogSink{l} }

type slogSink struct{ log *slog.Logger }

func (s slogSink) Write(ctx context.Context, r *Record) error {
	if s.log == nil {
		return fault.New(fault.AuditFailed, "there is no logger to write to").
			WithHint("Give gates.SlogSink a logger.")
	}
	level := slog.LevelInfo
	if r.Outcome != "" {
		level = slog.LevelWarn
	}
	entry := slog.NewRecord(r.Time, level, "call", 0)
	entry.AddAttrs(r.attrs()...)
	return s.log.Handler().Handle(ctx, entry)
}

// attrs are the fields of a record that have a value, under their JSON names.
func (r *Record) attrs() []slog.Attr {
	attrs := []slog.Attr{slog.String("phase", string(r.Phase)), slog.Bool("sent", r.Sent), slog.String("outcome", string(r.Outcome))}
	for _, text := range []struct{ name, value string }{
		{"id", r.ID}, {"connection", string(r.Connection)}, {"op", r.Op}, {"source", string(r.Source)},
		{"thread", string(r.Thread)}, {"execution", string(r.Execution)}, {"step", r.Step}, {"callId", r.CallID},
		{"key", string(r.Key)}, {"args", r.ArgsDigest}, {"approval", r.Approval}, {"by", r.By}, {"error", r.Error},
		{"prev", r.Prev}, {"hash", r.Hash},
	} {
		if text.value != "" {
			attrs = append(attrs, slog.String(text.name, text.value))
		}
	}
	if r.Duration != 0 {
		attrs = append(attrs, slog.Duration("duration", r.Duration))
	}
	for _, number := range []struct {
		name  string
		value int64
	}{{"bytes", r.Bytes}, {"seq", r.Seq}} {
		if number.value != 0 {
			attrs = append(attrs, slog.Int64(number.name, number.value))
		}
	}
	if len(r.Gates) > 0 {
		attrs = append(attrs, slog.Any("gates", r.Gates))
	}
	return attrs
}
