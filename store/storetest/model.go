package storetest

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/bridle-dev/bridle/store"
)

// agreesWithModel applies the same pseudo-random operations to the store and to
// a map, and compares after each transaction. The seed is fixed.
func agreesWithModel(k *kit) {
	random := rand.New(rand.NewPCG(1, 2))
	records := map[string]string{}
	giveUp := errors.New("gave up")
	for round := range 40 {
		after := maps.Clone(records)
		var result error
		if round%4 == 3 {
			result = giveUp
		}
		err := k.store.Update(k.ctx, func(tx store.Tx) error {
			after = maps.Clone(records)
			for range random.IntN(60) {
				step(k, tx, random, after)
			}
			compare(k, tx, random, after)
			return result
		})
		if err != result {
			k.Fatalf("Update = %v, want %v", err, result)
		}
		if result == nil {
			records = after
		}
		k.view(func(tx store.Tx) error { compare(k, tx, random, records); return nil })
	}
}

// step changes the store and the map alike.
func step(k *kit, tx store.Tx, random *rand.Rand, records map[string]string) {
	key := fmt.Sprintf("%c/%03d", 'a'+random.IntN(3), random.IntN(200))
	switch random.IntN(10) {
	case 0, 1, 2:
		k.must("Delete", tx.Delete("b", key))
		delete(records, key)
	case 3:
		for _, key := range k.keysIn(tx, "b", store.Range{From: key, Limit: 20}) {
			k.must("Delete", tx.Delete("b", key))
			delete(records, key)
		}
	default:
		value := fmt.Sprintf("%0*d", random.IntN(300), random.IntN(1000))
		k.must("Put", tx.Put("b", key, []byte(value)))
		records[key] = value
	}
}

// compare checks one value and a few random ranges.
func compare(k *kit, tx store.Tx, random *rand.Rand, records map[string]string) {
	keys := slices.Collect(maps.Keys(records))
	bound := func() string { return fmt.Sprintf("%c/%d", 'a'+random.IntN(3), random.IntN(10)) }
	for _, r := range []store.Range{
		{},
		{Prefix: bound()[:2], Reverse: true},
		{From: bound(), To: bound(), Reverse: true},
		{From: bound(), To: bound(), Limit: 1 + random.IntN(20)},
	} {
		k.wantKeys(fmt.Sprintf("%+v", r), k.keysIn(tx, "b", r), expected(keys, r))
	}
	for key, value := range records {
		k.wantValueIn(tx, "b", key, value)
		break
	}
}
