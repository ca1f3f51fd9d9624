package crash_test

import (
	"bytes"
	"os"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/provider"
)

// checkEffects looks whether anything happened more often than it may.
func (t *trial) checkEffects() {
	t.Helper()
	t.peer.mu.Lock()
	defer t.peer.mu.Unlock()
	for _, w := range t.peer.wrong {
		t.Error(w)
	}
	keys := map[string]provider.Key{}
	for key, e := range t.peer.effects {
		if other, taken := keys[e.name()]; taken {
			t.Errorf("%s was called under two keys: %s and %s", e.name(), key, other)
		}
		keys[e.name()] = key
		if most := t.mayHappen(key, e); e.done > most {
			t.Errorf("%s happened %d times, and may %d times; killed %v", e.name(), e.done, most, t.where)
		}
		// What failed last is tried again, and so is what may have been sent.
		if e.op != opRefuse && e.op != opRoom && e.sent > 1+t.doubts[key] {
			t.Errorf("%s was sent %d times, and was left open %d times", e.name(), e.sent, t.doubts[key])
		}
	}
}

// mayHappen is how often an effect may happen at most.
func (t *trial) mayHappen(key provider.Key, e *effect) int {
	switch e.op {
	case opRoom: // each process has a room of its own
		return t.tries
	case opPut:
		return 1 + t.doubts[key]
	case opPlain, opLong:
		if t.onUnknown == connection.ResendUnknown {
			return 1 + t.doubts[key]
		}
	}
	return 1
}

// checkSecret looks for the secret in the file.
func (t *trial) checkSecret() {
	t.Helper()
	raw, err := os.ReadFile(t.store())
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(raw, []byte(token)) {
		t.Error("the secret is in the store")
	}
}

// mustDoubt is the path of a call of which nobody can know whether it happened,
// if somebody must be asked about it.
func (t *trial) mustDoubt() string {
	if t.onUnknown == connection.ResendUnknown {
		return ""
	}
	found := ""
	for path, op := range t.doubted {
		if (op == opPlain || op == opLong) && (found == "" || t.turnsOn(found)) {
			found = path
		}
	}
	return found
}

// turnsOn reports whether a run goes on after the failure of a call: one that a
// model made fails for the model.
func (t *trial) turnsOn(path string) bool { return strings.Contains(path, "/round#") }

// checkUnknown looks whether a run ended because of a doubt, and stays so.
func (t *trial) checkUnknown(path string) {
	t.Helper()
	if !t.result.Unknown {
		t.Errorf("came to %s%s although it is not known what came of %s", t.result.Out, t.result.Err, path)
	}
	if !t.ever[path] { // a turn that failed for it may have been killed at its very end
		t.Errorf("nobody was told about the doubt at %s", path)
	}
	t.examine() // paths beside it were cut
	if t.attempt(0); !t.result.Unknown {
		t.Errorf("a further try came to %s%s", t.result.Out, t.result.Err)
	}
	t.checkEffects() // other paths may have gone on until that one failed
}

// sent is how often each call was sent.
func (t *trial) sent() map[provider.Key]int {
	t.peer.mu.Lock()
	defer t.peer.mu.Unlock()
	all := map[provider.Key]int{}
	for key, e := range t.peer.effects {
		all[key] = e.sent
	}
	return all
}

// checkTold looks whether there was a remark about all that a kill left open.
func (t *trial) checkTold() {
	t.Helper()
	for path, op := range t.unclear {
		if !t.told[path] {
			t.Errorf("nobody was told that it was not known what came of %s at %s", op, path)
		}
	}
}

// checkLedger looks at the record of an execution that is done.
func (t *trial) checkLedger() {
	t.Helper()
	t.ledger(func(l *ledger.Ledger) {
		rounds, settled := 0, 0
		for _, e := range t.entries(l) {
			switch {
			case e.Pending && e.Kind != "wait":
				t.Errorf("%s is still pending", e.Path)
			case e.Kind == ledger.KindRound:
				rounds++
			default:
				settled++
			}
		}
		if settled < 40 && t.kind != talking {
			t.Errorf("the workflow has %d steps only", settled)
		}
		if t.peer.asks > rounds+t.kills*2 { // two models may have been asked at once
			t.Errorf("the model was asked %d times for %d rounds, with %d kills", t.peer.asks, rounds, t.kills)
		}
		for x, err := range l.Executions(t.Context()) {
			if err != nil || x.State != ledger.Done || x.Turn == (t.kind == directly) || x.Attempts > 1+t.kills {
				t.Errorf("the execution is %+v, %v", x, err)
			}
		}
		waiting, err := l.Waiting(t.Context())
		if err != nil || len(waiting) > 0 {
			t.Errorf("%d messages wait for an answer, %v", len(waiting), err)
		}
	})
}

// checkAgain asks a further process for what is done.
func (t *trial) checkAgain() {
	t.Helper()
	before, sent := t.result, t.sent()
	t.attempt(0)
	if diff := cmp.Diff(before.Out, t.result.Out); diff != "" || t.result.Err != "" {
		t.Errorf("asked again it came to %s (-first +then):\n%s", t.result.Err, diff)
	}
	if diff := cmp.Diff(sent, t.sent()); diff != "" {
		t.Errorf("asked again it called the peer (-before +after):\n%s", diff)
	}
}
