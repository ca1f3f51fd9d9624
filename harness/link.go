package harness

import (
	"reflect"
	"sync"

	"github.com/bridle-dev/bridle/connection"
	"github.com/bridle-dev/bridle/gates"
	"github.com/bridle-dev/bridle/pool"
	"github.com/bridle-dev/bridle/provider"
)

// link is one live provider connection under its name.
type link struct {
	name  connection.Name
	conn  provider.Conn
	chain *gates.Chain    // takes what the peer says of itself the way back
	done  <-chan struct{} // closed when conn is lost
	lease *pool.Lease     // nil for one that is not private

	refreshing sync.Mutex // one refresh at a time, so that the newest manifest stays

	mu       sync.Mutex
	catalog  *gates.Catalog    // guarded by mu
	identity provider.Identity // guarded by mu
}

func newLink(name connection.Name, conn provider.Conn, chain *gates.Chain) *link {
	return &link{name: name, conn: conn, chain: chain, done: conn.Done(),
		catalog: gates.NewCatalog(name, chain.Manifest(conn.Manifest())), identity: chain.Identity(conn.Identity())}
}

// alive reports whether calls can be sent.
func (l *link) alive() bool {
	select {
	case <-l.done:
		return false
	default:
		return true
	}
}

func (l *link) current() (*gates.Catalog, provider.Identity) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.catalog, l.identity
}

// refresh takes the manifest anew and reports whether it differs.
func (l *link) refresh() (*gates.Catalog, bool) {
	l.refreshing.Lock()
	defer l.refreshing.Unlock()
	m := l.chain.Manifest(l.conn.Manifest())
	l.mu.Lock()
	defer l.mu.Unlock()
	if m == nil || reflect.DeepEqual(m, l.catalog.Manifest()) {
		return l.catalog, false
	}
	l.catalog = gates.NewCatalog(l.name, m)
	return l.catalog, true
}

// know takes an identity and returns the one before.
func (l *link) know(now provider.Identity) (was provider.Identity) {
	now = l.chain.Identity(now)
	l.mu.Lock()
	defer l.mu.Unlock()
	was, l.identity = l.identity, now
	return was
}
