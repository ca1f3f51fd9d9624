package refs

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"strconv"
	"strings"
	"sync"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/store"
)

// Aliases are short names that models use for sealed refs, such as element-3.
// They belong to a thread, are never given twice there, and are in the store, so
// that a conversation can go on after a restart.
//
// An alias proves nothing: the ref that it stands for is opened like any other.
// All methods may be used concurrently, and by several processes on one store.
type Aliases struct {
	store store.Store
	cache aliasCache
}

// OpenAliases returns the aliases of a store. It reads nothing yet; there is
// nothing to close, and the store must stay open.
func OpenAliases(s store.Store) *Aliases { return &Aliases{store: s} }

const aliasBucket = "refs/aliases"

// Alias returns the name of a sealed ref in its thread, and gives it one if it
// has none: the last word of its kind and a number. Refs to the same thing have
// the same alias, whichever key sealed them, and the alias stands for the one
// that came last.
//
// A ref of another thread is refused with ref_foreign_thread, one without a seal
// with ref_forged; other errors are the store's. Alias does not open the ref.
func (a *Aliases) Alias(ctx context.Context, thread string, r Ref) (string, error) {
	names, err := a.AliasAll(ctx, thread, []Ref{r})
	if err != nil {
		return "", err
	}
	return names[0], nil
}

// AliasAll is Alias for several refs, in their order and in one transaction:
// either all have names afterwards, or none got one. A result with hundreds of
// refs costs one write.
func (a *Aliases) AliasAll(ctx context.Context, thread string, all []Ref) ([]string, error) {
	keys := make([]aliasKey, len(all))
	for i, r := range all {
		switch {
		case !r.Sealed():
			return nil, refuse(r, fault.RefForged, "it has no seal")
		case r.thread != thread:
			return nil, refuse(r, fault.RefForeign, "it belongs to another thread")
		}
		keys[i] = aliasKey{thread: thread, target: r.target()}
	}
	if names, ok := a.cache.aliasesOf(keys, all); ok {
		return names, nil
	}
	names := make([]string, len(all))
	err := a.store.Update(ctx, func(tx store.Tx) (err error) {
		for i := range all {
			if names[i], err = give(tx, keys[i], all[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i, r := range all {
		a.cache.add(keys[i], names[i], r)
	}
	return names, nil
}

// Resolve returns the ref that an alias of a thread stands for, and whether
// there is one. The errors are the store's.
func (a *Aliases) Resolve(ctx context.Context, thread, alias string) (Ref, bool, error) {
	if r, ok := a.cache.ref(thread, alias); ok {
		return r, true, nil
	}
	if len(alias) > maxAlias {
		return Ref{}, false, nil
	}
	var r Ref
	found := false
	err := a.store.View(ctx, func(tx store.Tx) (err error) {
		r, found, err = aliased(tx, thread, alias)
		return err
	})
	if err != nil || !found {
		return Ref{}, false, err
	}
	a.cache.add(aliasKey{thread, r.target()}, alias, r)
	return r, true, nil
}

const (
	// maxWord bounds the word in an alias, which a server chose.
	maxWord = 24
	// maxAlias is longer than any alias: a word, a hyphen and the digits of an
	// int64.
	maxAlias = maxWord + 20
)

// word is what a model reads of a kind: the letters and digits of its last part.
func word(kind string) string {
	last := kind[strings.LastIndexAny(kind, ".:/")+1:]
	clean := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			return c
		}
		return -1
	}, strings.ToLower(last))
	if clean == "" {
		return "ref"
	}
	return clean[:min(len(clean), maxWord)]
}

// give returns the alias of a ref, made if there is none, and stores the ref
// under it.
func give(tx store.Tx, of aliasKey, r Ref) (string, error) {
	value, ok, err := tx.Get(aliasBucket, of.record())
	if err != nil {
		return "", err
	}
	alias := string(value)
	if !ok {
		if alias, err = nextAlias(tx, of.thread, word(r.kind)); err != nil {
			return "", err
		}
		if err := tx.Put(aliasBucket, of.record(), []byte(alias)); err != nil {
			return "", err
		}
	}
	return alias, put(tx, aliasBucket, aliasRecord(of.thread, alias), r)
}

// nextAlias counts the aliases of a word.
func nextAlias(tx store.Tx, thread, word string) (string, error) {
	counter := threadKey(thread) + "/n/" + word
	value, _, err := tx.Get(aliasBucket, counter)
	if err != nil {
		return "", err
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil && len(value) > 0 {
		return "", fault.New(fault.StoreFailed, "the number of aliases of %s is damaged", fault.Quote(word))
	}
	next := strconv.FormatInt(n+1, 10)
	return word + "-" + next, tx.Put(aliasBucket, counter, []byte(next))
}

// aliased reads the ref of an alias.
func aliased(tx store.Tx, thread, alias string) (r Ref, found bool, err error) {
	value, ok, err := tx.Get(aliasBucket, aliasRecord(thread, alias))
	if err != nil || !ok {
		return Ref{}, false, err
	}
	if err := json.Unmarshal(value, &r); err != nil {
		return Ref{}, false, fault.New(fault.StoreFailed, "the ref of the alias %s is damaged", fault.Quote(alias))
	}
	return r, true, nil
}

// threadKey begins the names of a thread's records: a digest, since a thread's
// name may be as long as a key.
func threadKey(thread string) string { return digest(sha256.Sum256([]byte(thread))) }

func digest(sum [sha256.Size]byte) string { return base64.RawURLEncoding.EncodeToString(sum[:]) }

func aliasRecord(thread, alias string) string { return threadKey(thread) + "/a/" + alias }

// target identifies what a ref points at, whoever sealed it.
type target [sha256.Size]byte

func (r Ref) target() target {
	var b []byte
	for _, text := range [...]string{r.kind, r.id, r.connection, r.lease, r.instance} {
		b = binary.AppendUvarint(b, uint64(len(text)))
		b = append(b, text...)
	}
	return sha256.Sum256(b)
}

// aliasKey is a target within a thread.
type aliasKey struct {
	thread string
	target target
}

func (k aliasKey) record() string { return threadKey(k.thread) + "/r/" + digest(k.target) }

// aliasCache keeps what was asked for last. An alias never changes its target,
// so the cache is never wrong about that; it may hold a ref with an older seal
// of another process, which is good as long as its key is.
type aliasCache struct {
	mu      sync.Mutex
	aliases map[aliasKey]string
	refs    map[[2]string]Ref // by thread and alias
}

// maxCached bounds the memory of a cache, which starts afresh when it is full.
const maxCached = 8192

// aliasesOf returns the aliases if the cache has all refs with the same seals.
func (c *aliasCache) aliasesOf(keys []aliasKey, all []Ref) ([]string, bool) {
	names := make([]string, len(keys))
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, key := range keys {
		name, ok := c.aliases[key]
		if !ok || !c.refs[[2]string{key.thread, name}].Equal(all[i]) {
			return nil, false
		}
		names[i] = name
	}
	return names, true
}

func (c *aliasCache) ref(thread, alias string) (Ref, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.refs[[2]string{thread, alias}]
	return r, ok
}

func (c *aliasCache) add(of aliasKey, alias string, r Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.aliases == nil || len(c.aliases) >= maxCached {
		c.aliases, c.refs = map[aliasKey]string{}, map[[2]string]Ref{}
	}
	c.aliases[of] = alias
	c.refs[[2]string{of.thread, alias}] = r
}
