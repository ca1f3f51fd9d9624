package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/bridle-dev/bridle/pool"
)

func leasesVerb() *verb {
	return &verb{name: "leases", help: "list what is left of pools that are not in the configuration; or: leases drop <lease> (socket)", run: runLeases,
		flags: func(fs *flag.FlagSet, c *command) {
			fs.StringVar(&c.reason, "reason", "", "`text` for the record, which drop needs")
		}}
}

func runLeases(ctx context.Context, c *command) error {
	switch {
	case len(c.args) == 0:
	case len(c.args) != 2 || c.args[0] != "drop":
		return misuse("leases wants nothing, or drop with the id of a lease")
	case c.reason == "":
		return misuse("drop wants a -reason, for the record")
	}
	s, err := c.dial(strings.Join(append([]string{c.verb.name}, c.args...), " "))
	if err != nil {
		return err
	}
	defer s.close()
	var page struct {
		Leases []*pool.Stray `json:"leases"`
	}
	if err := s.ask(ctx, http.MethodGet, "/leases", nil, &page); err != nil {
		return err
	}
	if len(c.args) == 0 {
		return c.printLeases(page.Leases)
	}
	return c.dropLease(ctx, s, page.Leases, c.args[1])
}

func (c *command) printLeases(all []*pool.Stray) error {
	switch c.format {
	case formatJSON:
		return c.printJSON(map[string][]*pool.Stray{"leases": append([]*pool.Stray{}, all...)})
	case formatJSONL, formatID:
		return printEach(c, all, func(l *pool.Stray) string { return l.ID })
	}
	if len(all) == 0 {
		c.remark("no leases")
		return nil
	}
	t := c.table("POOL", "LEASE", "INSTANCE", "EXECUTION", "STEP")
	for _, l := range all {
		t.row(l.Pool, l.ID, l.Instance, string(l.Execution), l.Path)
	}
	return t.print()
}

// dropLease has the harness forget the lease that an id, or the beginning of one,
// names.
func (c *command) dropLease(ctx context.Context, s *socket, all []*pool.Stray, short string) error {
	id, err := among("lease", short, all, func(l *pool.Stray) string { return l.ID })
	switch {
	case err != nil:
		return err
	case id == "":
		id = short
	}
	dropped := new(pool.Stray)
	if err := s.ask(ctx, http.MethodPost, "/leases/"+url.PathEscape(id)+"/drop", map[string]string{"reason": c.reason}, dropped); err != nil {
		return err
	}
	if printed, err := c.printOne(dropped, dropped.ID); printed {
		return err
	}
	_, err = fmt.Fprintln(c.out, plain("dropped "+dropped.ID+" of "+dropped.Pool))
	return err
}
