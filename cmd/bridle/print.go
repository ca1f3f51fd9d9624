package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// printJSON writes one document, for people and programs.
func (c *command) printJSON(value any) error {
	raw, err := encode(value)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return err
	}
	_, err = fmt.Fprintln(c.out, escapeJSON(b.String()))
	return err
}

// printLine writes one line of JSON.
func (c *command) printLine(value any) error {
	raw, err := encode(value)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(c.out, escapeJSON(string(raw)))
	return err
}

// encode writes JSON without escapes that only a web page needs.
func encode(value any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return nil, fail(exitFailed, "failed", "the answer cannot be written as JSON: %v", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// printID writes an id alone on its line.
func (c *command) printID(id string) error {
	_, err := fmt.Fprintln(c.out, plain(id))
	return err
}

// selection is the flags that a list was narrowed with, to go on with the same.
func (c *command) selection(states string) string {
	var flags strings.Builder
	for _, f := range [][3]string{{"state", c.state, states}, {"trigger", c.trigger}, {"thread", c.thread}} {
		if name, value, usual := f[0], f[1], f[2]; value != usual {
			fmt.Fprintf(&flags, " -%s %s", name, value)
		}
	}
	return flags.String()
}

// printOne writes what a command is about for programs, and reports whether that
// was asked for.
func (c *command) printOne(value any, id string) (printed bool, err error) {
	switch c.format {
	case formatJSON:
		return true, c.printJSON(value)
	case formatJSONL:
		return true, c.printLine(value)
	case formatID:
		return true, c.printID(id)
	}
	return false, nil
}

// printEach writes a line for each of many, with all of it or its id alone.
func printEach[T any](c *command, all []T, id func(T) string) error {
	for _, one := range all {
		var err error
		if c.format == formatID {
			err = c.printID(id(one))
		} else {
			err = c.printLine(one)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// remark tells people something that is no part of the data.
func (c *command) remark(format string, args ...any) {
	if c.format == formatTable || c.format == formatWide {
		fmt.Fprintln(c.err, plain(fmt.Sprintf(format, args...)))
	}
}

// since is a duration in one word.
func since(d time.Duration) string {
	switch {
	case d < 0:
		return "-"
	case d < time.Minute:
		return strconv.Itoa(int(d/time.Second)) + "s"
	case d < time.Hour:
		return strconv.Itoa(int(d/time.Minute)) + "m"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d/time.Hour)) + "h"
	}
	return strconv.Itoa(int(d/(24*time.Hour))) + "d"
}

// took is how long something took, in one word.
func took(d time.Duration) string {
	switch {
	case d < 0:
		return "-"
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
	case d < time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "s"
	}
	return d.Round(time.Second).String()
}

func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
