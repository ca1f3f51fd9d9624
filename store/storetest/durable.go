package storetest

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/store"
)

func durableCases() []testCase {
	return []testCase{
		{"RecordsSurvive", recordsSurvive},
		{"RollbacksDoNotComeBack", rollbacksDoNotComeBack},
		{"ReopenWhileOpen", reopenWhileOpen},
	}
}

// reopen goes on with what the store left behind.
func (k *kit) reopen() {
	k.Helper()
	k.store = k.cfg.Reopen(k.T, k.store)
}

func recordsSurvive(k *kit) {
	keys := numbered(300)
	large := bytes.Repeat([]byte("large"), 1<<20/5)
	k.putAll("b", keys)
	k.update(func(tx store.Tx) error {
		k.must("Put", tx.Put("b", keys[1], []byte("changed")))
		k.must("Delete", tx.Delete("b", keys[0]))
		k.must("Put", tx.Put("\xff\x00", "\x00\xff", nil))
		return tx.Put("c", "large", large)
	})
	for round := range 2 {
		k.must("Close", k.store.Close())
		k.reopen()
		k.wantKeys("after Reopen", k.keys("b", store.Range{}), keys[1:])
		k.wantValue("b", keys[1], "changed")
		k.wantValue("b", keys[2], keys[2])
		k.wantValue("c", "large", string(large))
		k.wantValue("\xff\x00", "\x00\xff", "")
		for earlier := range round {
			k.wantValue("rounds", fmt.Sprint(earlier), "")
		}
		k.put("rounds", fmt.Sprint(round), "")
	}
}

func rollbacksDoNotComeBack(k *kit) {
	k.put("b", "kept", "1")
	k.put("b", "gone", "1")
	_ = k.store.Update(k.ctx, func(tx store.Tx) error {
		overwriteAll(k, tx)
		return errors.New("changed my mind")
	})
	k.reopen()
	wantUntouched(k)
}

func reopenWhileOpen(k *kit) {
	k.put("b", "k", "1")
	before := k.store
	k.reopen()
	k.wantValue("b", "k", "1")
	k.wantCode("View of the store before Reopen", before.View(k.ctx, func(store.Tx) error { return nil }), fault.Closed)
	k.must("Close of the store before Reopen", before.Close())
	k.wantValue("b", "k", "1")
}
