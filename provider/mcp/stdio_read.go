package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/bridle-dev/bridle/fault"
)

// readLines is the only reader of what the server writes.
func (c *lineConn) readLines() {
	defer close(c.ended)
	r := bufio.NewReaderSize(c.peer.output(), 64<<10)
	for {
		line, over, err := readLine(r, c.maxLine)
		if over > 0 {
			if err := c.oversized(line, over); err != nil {
				c.endErr = err
				return
			}
		} else if len(line) > 0 {
			c.deliver(line)
		}
		if err != nil {
			c.endErr = c.peer.ending()
			return
		}
	}
}

// deliver passes the messages of one line on.
func (c *lineConn) deliver(line []byte) {
	messages, rest, err := decodeLine(line)
	for _, msg := range messages {
		c.pass(msg)
	}
	if err != nil {
		c.spoilt(rest, err)
	}
}

// pass gives a message to whom it concerns. While the connection is being
// closed it is dropped, but still read: a server that cannot get rid of its
// output cannot end.
func (c *lineConn) pass(msg jsonrpc.Message) {
	if r, ok := msg.(*jsonrpc.Response); ok {
		r.ID = numeric(r.ID)
	}
	c.tap.see(msg)
	if c.tap.asker.take(msg, nil, c.tap.waiting) {
		return
	}
	end, missed := c.listening.heard(msg)
	if missed {
		c.missed()
	}
	switch m := msg.(type) {
	case *jsonrpc.Response:
		if !c.tap.gave(m.ID) {
			c.blame(c.tap.strays.answer(m.ID))
			return
		}
		if isOwn(m.ID) {
			return
		}
	case *jsonrpc.Request:
		if m.Method == methodProgress {
			return // the SDK has nobody to tell
		}
	}
	if end {
		return
	}
	select {
	case c.in <- msg:
	case <-c.closed:
	}
}

// blame fails the one request that waits, if it is one, for an answer that
// belongs to none: nothing else can be meant, and the right one will not come.
func (c *lineConn) blame(what string) {
	if id, ok := c.tap.only(); ok {
		c.fail(id, astray(what))
	}
}

// fail ends the one request whose answer is of no use. err says that the
// outcome is unknown.
func (c *lineConn) fail(id jsonrpc.ID, err error) {
	if x := c.tap.find(id); x != nil {
		x.decide(err)
	}
	if isOwn(id) {
		return
	}
	reply := &jsonrpc.Response{ID: id, Error: &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()}}
	select {
	case c.in <- reply:
	case <-c.closed:
	}
}

// spoilt looks at text that is no message. It costs the one request that it
// answers, if that much can be read.
func (c *lineConn) spoilt(text []byte, err error) {
	if refusal := decodeRefusal(text); refusal != nil {
		what := c.tap.strays.refusal(refusal)
		if refusal.Code == jsonrpc.CodeParseError || refusal.Code == jsonrpc.CodeInvalidRequest {
			c.blame(what) // other codes may as well answer a notification
		}
		return
	}
	if id, ok := answeredID(text); ok {
		c.fail(id, unreadable(err))
		return
	}
	c.tap.strays.skip(text)
}

// decodeLine reads the messages of a line: one, or several of a server whose
// threads do not wait for each other's line ends, or the batch that revision
// 2025-03-26 allowed. With an error comes the rest, from where it holds none.
func decodeLine(line []byte) (all []jsonrpc.Message, rest []byte, err error) {
	msg, err := decodeMessage(line)
	if err == nil {
		return []jsonrpc.Message{msg}, nil, nil
	}
	if line[0] == '[' {
		return decodeBatch(line)
	}
	values := jsontext.NewDecoder(bytes.NewReader(line), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for {
		at := values.InputOffset()
		value, readErr := values.ReadValue()
		if errors.Is(readErr, io.EOF) {
			return all, nil, nil
		}
		if readErr == nil {
			msg, readErr = decodeMessage(value)
		}
		if readErr != nil {
			return all, bytes.TrimSpace(line[at:]), readErr
		}
		all = append(all, msg)
	}
}

// decodeBatch reads the messages of an array. With an error comes one of its
// elements that is none.
func decodeBatch(line []byte) (all []jsonrpc.Message, rest []byte, err error) {
	var parts []json.RawMessage
	if err := json.Unmarshal(line, &parts); err != nil {
		return nil, line, err
	}
	for _, part := range parts {
		msg, partErr := decodeMessage(part)
		if partErr != nil {
			rest, err = part, partErr
			continue
		}
		all = append(all, msg)
	}
	return all, rest, err
}

// oversized costs the one call that the line answers. One that may be an answer
// and does not show whose ends the connection: nobody could be told.
func (c *lineConn) oversized(edges []byte, size int) error {
	err := fault.New(fault.OutcomeUnknown, "the server's reply of %d bytes is over the limit of %d", size, c.maxLine).
		WithHint("raise MaxLine, or ask the server for less at once")
	if id, ok := answeredID(edges); ok {
		c.fail(id, err)
		return nil
	}
	if noAnswer.Match(edges) {
		c.tap.strays.skip(edges)
		return nil
	}
	return err
}

// idFirst and idLast find the id of a response whose middle is missing or cannot
// be read, by how it begins or how it begins and ends. Only one closing brace may
// follow an id at the end, so it is the message's own. noAnswer are the other
// messages, and text that is no JSON.
var (
	idFirst = regexp.MustCompile(`^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*"?(\d{1,15})"?\s*,` +
		`\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"(?:result|error)"`)
	idLast = regexp.MustCompile(`(?s)^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"(?:result|error)".*` +
		`,\s*"id"\s*:\s*"?(\d{1,15})"?\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`)
	noAnswer = regexp.MustCompile(`^\s*(?:[^\s{[]|\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"method")`)
)

// answeredID is the id of the request that something unreadable answers. Its
// edges are enough.
func answeredID(text []byte) (jsonrpc.ID, bool) {
	match := idFirst.FindSubmatch(text)
	if match == nil {
		match = idLast.FindSubmatch(text)
	}
	if match == nil {
		return jsonrpc.ID{}, false
	}
	n, err := strconv.ParseInt(string(match[1]), 10, 64)
	if err != nil {
		return jsonrpc.ID{}, false
	}
	id, err := jsonrpc.MakeID(float64(n))
	return id, err == nil
}

// byteOrderMark is what some runtimes write before anything else.
const byteOrderMark = "\ufeff"

// edge is how much of each end of an oversized line is kept.
const edge = 128

// readLine reads up to and including LF and returns the line trimmed. A line
// over max is read to its end but only its edges are kept, and its size is
// returned.
func readLine(r *bufio.Reader, max int) (line []byte, over int, err error) {
	size := 0
	for {
		part, err := r.ReadSlice('\n')
		size += len(part)
		line = append(line, part...)
		if size > max && len(line) > 2*edge {
			line = append(line[:edge:edge], line[len(line)-edge:]...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if size > max {
			over = size
		}
		return bytes.TrimSpace(bytes.TrimPrefix(line, []byte(byteOrderMark))), over, err
	}
}
