package inmemory

import (
	"sync"

	"github.com/bridle-dev/bridle/provider"
)

// watcher tells one function of changes, in a goroutine of its own. Changes of
// one kind that come faster than it takes them are told once.
type watcher struct {
	quit   chan struct{}
	gone   chan struct{} // closed when the goroutine ended
	signal chan struct{}

	mu      sync.Mutex
	pending map[provider.Change]bool // guarded by mu
}

// Watch tells f of changes until stop, or until the connection ended. f must
// not call stop or Release, which wait for it.
func (c *conn) Watch(f func(provider.Change)) (stop func()) {
	w := &watcher{quit: make(chan struct{}), gone: make(chan struct{}),
		signal: make(chan struct{}, 1), pending: map[provider.Change]bool{}}
	if !c.addWatcher(w) {
		return func() {}
	}
	go func() {
		defer c.dropWatcher(w)
		w.tell(f, c.done)
	}()
	var once sync.Once
	return func() {
		once.Do(func() { close(w.quit) })
		<-w.gone
	}
}

func (c *conn) addWatcher(w *watcher) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return false
	}
	c.active++
	c.watchers[w] = struct{}{}
	return true
}

func (c *conn) dropWatcher(w *watcher) {
	close(w.gone)
	c.mu.Lock()
	delete(c.watchers, w)
	c.mu.Unlock()
	c.leave()
}

// announce tells the watchers of all connections.
func (p *Provider) announce(change provider.Change) {
	for _, c := range p.connections() {
		c.mu.Lock()
		for w := range c.watchers {
			w.add(change)
		}
		c.mu.Unlock()
	}
}

func (w *watcher) add(change provider.Change) {
	w.mu.Lock()
	w.pending[change] = true
	w.mu.Unlock()
	select {
	case w.signal <- struct{}{}:
	default:
	}
}

func (w *watcher) take() []provider.Change {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []provider.Change
	for _, change := range []provider.Change{provider.IdentityChanged, provider.ManifestChanged} {
		if w.pending[change] {
			out = append(out, change)
		}
	}
	clear(w.pending)
	return out
}

func (w *watcher) tell(f func(provider.Change), done <-chan struct{}) {
	for {
		select {
		case <-w.quit:
			return
		case <-done:
			return
		case <-w.signal:
		}
		for _, change := range w.take() {
			f(change)
		}
	}
}
