package storetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/store"
)

// concurrentCases are about engines that commit several updates together: none
// of them may notice that the others are there.
func concurrentCases() []testCase {
	return []testCase{
		{"UpdatesFailAlone", updatesFailAlone},
		{"ConcurrentUpdatesAreSerializable", concurrentUpdatesAreSerializable},
	}
}

// workers is how many goroutines update at the same time.
const workers = 12

// ending is a way in which an update does not succeed.
type ending struct {
	name string
	run  func(k *kit, write func(tx store.Tx) error) error
	want error // what the error matches; nil if there is none to look at
}

// changedMind is the error of updates that fail below.
type changedMind struct{}

func (changedMind) Error() string { return "changed my mind" }

func endings() []ending {
	return []ending{
		{"error", failingUpdate, changedMind{}},
		{"panic", panickingUpdate, nil},
		{"goexit", leavingUpdate, nil},
		{"cancel", cancelledUpdate, fault.Cancelled},
	}
}

func failingUpdate(k *kit, write func(tx store.Tx) error) error {
	return k.store.Update(k.ctx, func(tx store.Tx) error {
		return errors.Join(write(tx), changedMind{})
	})
}

func panickingUpdate(k *kit, write func(tx store.Tx) error) (err error) {
	reason := errors.New("boom")
	defer func() {
		if value := recover(); value != reason {
			k.Errorf("Update panicked with %v, want its own function's value", value)
		}
	}()
	return k.store.Update(k.ctx, func(tx store.Tx) error { k.must("Put", write(tx)); panic(reason) })
}

func leavingUpdate(k *kit, write func(tx store.Tx) error) error {
	var left sync.WaitGroup
	left.Go(func() {
		_ = k.store.Update(k.ctx, func(tx store.Tx) error { k.must("Put", write(tx)); skipNow(); return nil })
	})
	left.Wait()
	return nil
}

func cancelledUpdate(k *kit, write func(tx store.Tx) error) error {
	ctx, cancel := context.WithCancel(k.ctx)
	defer cancel()
	return k.store.Update(ctx, func(tx store.Tx) error { cancel(); return write(tx) })
}

// updatesFailAlone lets updates that succeed and updates that do not run at the
// same time. All write the same counter, and a record of their own.
func updatesFailAlone(k *kit) {
	const rounds = 8
	k.put("b", "n", "0")
	count := func(key string) func(tx store.Tx) error {
		return func(tx store.Tx) error {
			if err := tx.Put("b", "n", []byte(strconv.Itoa(k.number(tx, "n")+1))); err != nil {
				return err
			}
			return tx.Put("written", key, nil)
		}
	}
	done := make(chan struct{})
	var succeeding, failing sync.WaitGroup
	for _, end := range endings() {
		for range 2 {
			failing.Go(func() { failUntil(k, done, end, count(end.name)) })
		}
	}
	var want []string
	for worker := range workers {
		for round := range rounds {
			want = append(want, fmt.Sprintf("%02d/%d", worker, round))
		}
		succeeding.Go(func() {
			for round := range rounds {
				k.update(count(fmt.Sprintf("%02d/%d", worker, round)))
			}
		})
	}
	succeeding.Wait()
	close(done)
	failing.Wait()
	k.wantKeys("written by updates that succeeded", k.keys("written", store.Range{}), want)
	k.wantValue("b", "n", strconv.Itoa(workers*rounds))
}

func failUntil(k *kit, done <-chan struct{}, end ending, write func(tx store.Tx) error) {
	for {
		err := end.run(k, write)
		if end.want != nil && !errors.Is(err, end.want) {
			k.Errorf("Update that ends with %s: error %v, want %v", end.name, err, end.want)
		}
		select {
		case <-done:
			return
		default:
		}
	}
}

// serial is what one update saw and did, and its place in the order.
type serial struct {
	place  int
	saw    []string          // keys and values before
	writes map[string]string // "" stands for a deleted key
	after  []string          // the same after its writes
}

// concurrentUpdatesAreSerializable takes down what each of many updates reads
// and writes, and replays it in the order that a counter among the records gives.
func concurrentUpdatesAreSerializable(k *kit) {
	const rounds = 8
	k.put("b", "n", "0")
	var mu sync.Mutex
	var history []serial
	var all sync.WaitGroup
	for worker := range workers {
		all.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(worker)))
			for round := range rounds {
				var one serial
				err := k.store.Update(k.ctx, func(tx store.Tx) error {
					one = serialStep(k, tx, random)
					if round%3 == 2 {
						return changedMind{}
					}
					return nil
				})
				if err == nil {
					mu.Lock()
					history = append(history, one)
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	replay(k, history)
}

func serialStep(k *kit, tx store.Tx, random *rand.Rand) serial {
	one := serial{place: k.number(tx, "n") + 1, saw: pairsIn(k, tx), writes: map[string]string{}}
	k.must("Put", tx.Put("b", "n", []byte(strconv.Itoa(one.place))))
	for range random.IntN(5) {
		key := fmt.Sprintf("key %02d", random.IntN(20))
		if random.IntN(3) == 0 {
			one.writes[key] = ""
			k.must("Delete", tx.Delete("data", key))
			continue
		}
		one.writes[key] = fmt.Sprint(random.IntN(1000))
		k.must("Put", tx.Put("data", key, []byte(one.writes[key])))
	}
	one.after = pairsIn(k, tx)
	return one
}

// pairsIn lists the records of bucket "data" forwards, and checks it backwards.
func pairsIn(k *kit, tx store.Tx) (pairs []string) {
	k.Helper()
	for record, err := range tx.Scan("data", store.Range{}) {
		k.must("Scan", err)
		pairs = append(pairs, record.Key+"="+string(record.Value))
	}
	var back []string
	for record, err := range tx.Scan("data", store.Range{Reverse: true}) {
		k.must("Scan", err)
		back = append(back, record.Key+"="+string(record.Value))
	}
	slices.Reverse(back)
	k.wantKeys("in reverse", back, pairs)
	return pairs
}

func replay(k *kit, history []serial) {
	slices.SortFunc(history, func(a, b serial) int { return cmp.Compare(a.place, b.place) })
	records := map[string]string{}
	pairs := func() (all []string) {
		for _, key := range slices.Sorted(maps.Keys(records)) {
			all = append(all, key+"="+records[key])
		}
		return all
	}
	for i, one := range history {
		if one.place != i+1 {
			k.Fatalf("update %d of the history took place %d", i+1, one.place)
		}
		k.wantKeys(fmt.Sprintf("update %d at first", one.place), one.saw, pairs())
		for key, value := range one.writes {
			if records[key] = value; value == "" {
				delete(records, key)
			}
		}
		k.wantKeys(fmt.Sprintf("update %d in the end", one.place), one.after, pairs())
	}
	k.view(func(tx store.Tx) error { k.wantKeys("in the end", pairsIn(k, tx), pairs()); return nil })
}

// eachUpdateSignals lets updates at the same time each look for their own signal.
func eachUpdateSignals(k *kit) {
	var all sync.WaitGroup
	for worker := range workers {
		all.Go(func() {
			mine := fmt.Sprintf("%02d/", worker)
			changed, stop := k.store.Changed("b", mine)
			defer stop()
			for round := range 4 {
				k.quiet("before the update", changed)
				k.put("b", mine+strconv.Itoa(round), "")
				k.wantSignal("an update among others", changed)
			}
		})
	}
	all.Wait()
}
