package refs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"strings"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/refs"
	"github.com/bridle-dev/bridle/store"
)

// A ref is sealed when it leaves and opened when it comes back. Nothing in it
// can be changed, and it is good only where it was issued.
func Example() {
	ctx, db := context.Background(), store.Memory()
	defer db.Close()
	keys, err := refs.OpenKeys(ctx, db)
	if err != nil {
		log.Fatal(err)
	}
	scope := refs.Scope{Connection: "app", Thread: "t1", Instance: "page-7"}
	sealed, err := keys.Seal(refs.New("element", "e12"), scope, true)
	if err != nil {
		log.Fatal(err)
	}
	text, _ := json.Marshal(sealed)

	var back refs.Ref
	if err := json.Unmarshal(text, &back); err != nil {
		log.Fatal(err)
	}
	fmt.Println(back.ID(), keys.Open(back, scope))

	scope.Instance = "page-8"
	fmt.Println(errors.Is(keys.Open(back, scope), fault.RefReplaced))

	_ = json.Unmarshal([]byte(strings.Replace(string(text), "e12", "e13", 1)), &back)
	fmt.Println(errors.Is(keys.Open(back, scope), fault.RefForged))
	// Output:
	// e12 <nil>
	// true
	// true
}
