package gates

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"strconv"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/store"
)

// VerifyJSONLines reads a log that [JSONLines] or [OpenJSONLines] wrote and
// checks that it is whole: that no record was altered, left out, put in, moved or
// cut short. It returns the last record of the part that is: the first broken one
// is the next, and the audit_failed error says what is wrong with it, its Issue
// with a Path of "/" and the record's Seq.
//
// Nothing in a log shows that records at its end were removed, or that all of it
// was written anew. For that, note a [Head] somewhere else from time to time and
// pass it as known: then a log that does not contain that record is an error too.
// known may be nil.
func VerifyJSONLines(r io.Reader, known *Head) (Head, error) {
	v := verifier{known: known}
	in := bufio.NewReaderSize(r, maxRecordLine)
	for {
		line, err := in.ReadSlice('\n')
		switch {
		case err == nil:
			if err := v.next(bytes.TrimSuffix(line, []byte{'\n'})); err != nil {
				return v.head, err
			}
		case errors.Is(err, io.EOF) && len(line) == 0:
			return v.head, v.end()
		case errors.Is(err, io.EOF):
			return v.head, v.broken("was not written to its end")
		case errors.Is(err, bufio.ErrBufferFull):
			return v.head, v.broken("is no record")
		default:
			return v.head, fault.New(fault.AuditFailed, "read the log: %w", err)
		}
	}
}

// VerifyStore is VerifyJSONLines for the records that a [StoreSink] keeps in s.
// Since the store also knows which record is the last, removing records at the
// end shows, unless that was changed too. The log may grow meanwhile.
func VerifyStore(ctx context.Context, s store.Store, known *Head) (Head, error) {
	v := verifier{known: known}
	for line, err := range storedLines(ctx, s) {
		if err != nil {
			return v.head, err
		}
		if err := v.next(line); err != nil {
			return v.head, err
		}
	}
	if err := v.end(); err != nil {
		return v.head, err
	}
	last, err := lastStored(ctx, s)
	if err != nil {
		return v.head, err
	}
	err = v.reaches(ctx, s, last)
	return v.head, err
}

// reaches checks that the records up to last, which the store names as the last
// one, are there and were there when it did: some may have come since the others
// were read.
func (v *verifier) reaches(ctx context.Context, s store.Store, last Head) error {
	switch {
	case last.Seq < v.head.Seq:
		v.head = last
		return v.broken("should not be there: the store says that the log ends before it")
	case last.Seq == v.head.Seq && last.Hash != v.head.Hash:
		v.head = v.before
		return v.broken("is another than the one that the store names as the last")
	}
	for line, err := range storedLinesFrom(ctx, s, v.head.Seq+1) {
		if err != nil {
			return err
		}
		if err := v.next(line); err != nil {
			return err
		}
	}
	if v.head.Seq < last.Seq {
		return v.broken("is missing: the store says that the log ends with record " + strconv.FormatInt(last.Seq, 10))
	}
	return nil
}

// verifier follows a chain.
type verifier struct {
	known  *Head
	head   Head // the last record that is sound
	before Head // the one before that
}

func (v *verifier) next(line []byte) error {
	r, wrong := unseal(line)
	if wrong == "" {
		wrong = v.head.follows(&r)
	}
	if wrong == "" && v.known != nil && r.Seq == v.known.Seq && r.Hash != v.known.Hash {
		wrong = "is another than the one that is known"
	}
	if wrong != "" {
		return v.broken(wrong)
	}
	v.before, v.head = v.head, r.head()
	return nil
}

// end checks that the known record was among those that were read.
func (v *verifier) end() error {
	if v.known != nil && v.known.Seq > v.head.Seq {
		return v.broken("is missing: records up to " + strconv.FormatInt(v.known.Seq, 10) + " are known")
	}
	return nil
}

func (v *verifier) broken(wrong string) error {
	seq := strconv.FormatInt(v.head.Seq+1, 10)
	err := fault.New(fault.AuditFailed, "the chain of records is broken")
	err.Issues = []fault.Issue{{Path: "/" + seq, Message: "record " + seq + " " + wrong}}
	return err
}
