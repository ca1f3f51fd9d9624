package ledger_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/bridle-dev/bridle/ledger"
	"github.com/bridle-dev/bridle/store"
)

func ExampleLedger_Executions() {
	ctx := context.Background()
	l, err := ledger.Open(ctx, store.Memory())
	if err != nil {
		log.Fatal(err)
	}
	run, err := l.Begin(ctx, ledger.Execution{ID: "nightly-7", Thread: "nightly"}, nil, nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := run.Settle(ctx, ledger.Entry{Path: "/report#1", Kind: "func", Output: json.RawMessage(`"sent"`)}); err != nil {
		log.Fatal(err)
	}
	for x, err := range l.Executions(ctx) {
		fmt.Println(x.ID, x.State, err)
	}
	for e, err := range l.Entries(ctx, "nightly-7") {
		fmt.Println(e.Path, string(e.Output), err)
	}
	// Output:
	// nightly-7 running <nil>
	// /report#1 "sent" <nil>
}
