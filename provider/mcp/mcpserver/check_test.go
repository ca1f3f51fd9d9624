package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
	"github.com/bridle-dev/bridle/provider/mcp"
	"github.com/bridle-dev/bridle/provider/mcp/mcpserver"
	"github.com/bridle-dev/bridle/store"
)

// issues are the places that Check names.
func issues(t *testing.T, k *mcpserver.Kit) (paths []string) {
	t.Helper()
	err := k.Check()
	if err == nil {
		return nil
	}
	fe, ok := errors.AsType[*fault.Error](err)
	if !ok || fe.Code != fault.ProviderInvalid {
		t.Fatalf("Check: %v", err)
	}
	for _, i := range fe.Issues {
		paths = append(paths, i.Path)
	}
	return paths
}

func newKit(opts *mcpserver.Options) (*mcpserver.Kit, *sdk.Server) {
	s := sdk.NewServer(&sdk.Implementation{Name: "s", Version: "1"}, nil)
	return mcpserver.New(s, opts), s
}

func add[Args, Result any](op string) func(*mcpserver.Kit) {
	return func(k *mcpserver.Kit) {
		mcpserver.Add(k, op, func(context.Context, *mcpserver.Call, Args) (r Result, err error) { return r, nil })
	}
}

// TestMistakesAreNamedAndNotServed has one row for each mistake. The operation
// "op" is served only where nothing is wrong with it.
func TestMistakesAreNamedAndNotServed(t *testing.T) {
	t.Parallel()
	type args struct {
		Text string `json:"text"`
		N    int    `json:"n,omitempty"`
	}
	type loose struct {
		Text string `json:"text,omitempty"`
	}
	said := func(o provider.Operation) *mcpserver.Options {
		o.Name = "op"
		return &mcpserver.Options{Operations: []provider.Operation{o}}
	}
	profile := func(ops ...provider.Operation) *mcpserver.Options {
		return &mcpserver.Options{Profiles: []*provider.Profile{{Name: "p", Version: "1.0.0", Operations: ops}}}
	}
	safe := provider.Hints{Destructive: no()}
	schema := func(text string) provider.Operation {
		return provider.Operation{Name: "op", Args: json.RawMessage(text)}
	}
	result := func(text string) provider.Operation {
		return provider.Operation{Name: "op", Result: json.RawMessage(text)}
	}
	text := `{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`
	for name, tt := range map[string]struct {
		opts *mcpserver.Options
		add  func(*mcpserver.Kit)
		want []string
	}{
		"nothing wrong":             {said(provider.Operation{Hints: safe}), add[args, args]("op"), nil},
		"not described":             {nil, add[args, args]("op"), []string{"/operations/op"}},
		"destructive left out":      {said(provider.Operation{}), add[args, args]("op"), []string{"/operations/op/hints"}},
		"read-only denied only":     {said(provider.Operation{Hints: provider.Hints{ReadOnly: no()}}), add[args, args]("op"), []string{"/operations/op/hints"}},
		"both":                      {said(provider.Operation{Hints: provider.Hints{ReadOnly: yes(), Destructive: yes()}}), add[args, args]("op"), []string{"/operations/op/hints"}},
		"once without a store":      {said(provider.Operation{Hints: safe, Facts: provider.Facts{Once: true}}), add[args, args]("op"), []string{"/operations/op"}},
		"arguments are a list":      {said(provider.Operation{Hints: safe}), add[[]int, args]("op"), []string{"/operations/op/args"}},
		"arguments are no JSON":     {said(provider.Operation{Hints: safe}), add[struct{ C chan int }, args]("op"), []string{"/operations/op/args"}},
		"result is no JSON":         {said(provider.Operation{Hints: safe}), add[args, chan int]("op"), []string{"/operations/op/result"}},
		"broken schema":             {said(provider.Operation{Hints: safe, Result: json.RawMessage(`{"type":7}`)}), add[args, any]("op"), []string{"/operations/op/result"}},
		"a schema the SDK refuses":  {profile(schema(`{"type":"object","properties":{"l":{"type":"array","x-mcp-header":"L"}}}`)), add[json.RawMessage, any]("op"), []string{"/operations/op", "/profiles/p@1.0.0/operations/op"}},
		"a profile's operation":     {profile(schema(text)), add[args, args]("op"), nil},
		"any type fits":             {profile(schema(text)), add[map[string]any, any]("op"), nil},
		"missing operation":         {profile(schema(text)), nil, []string{"/profiles/p@1.0.0/operations/op"}},
		"optional one is missing":   {profile(provider.Operation{Name: "op", Facts: provider.Facts{Optional: true}}), nil, nil},
		"wants more than profile":   {profile(schema(`{"type":"object","properties":{"text":{"type":"string"}}}`)), add[args, args]("op"), []string{"/operations/op/args/text", "/profiles/p@1.0.0/operations/op"}},
		"takes another type":        {profile(schema(`{"type":"object","properties":{"text":{"type":["string","null"]}},"required":["text"]}`)), add[args, args]("op"), []string{"/operations/op/args/text", "/profiles/p@1.0.0/operations/op"}},
		"loses a field":             {profile(schema(`{"type":"object","properties":{"text":{"type":"string"},"m":{}},"required":["text"]}`)), add[args, args]("op"), []string{"/operations/op/args/m", "/profiles/p@1.0.0/operations/op"}},
		"result leaves a field out": {profile(result(text)), add[args, loose]("op"), []string{"/operations/op/result/text", "/profiles/p@1.0.0/operations/op"}},
		"result has more, allowed":  {profile(result(text)), add[args, args]("op"), nil},
		"result has more, refused":  {profile(result(`{"type":"object","properties":{"text":{"type":"string"}},"additionalProperties":false}`)), add[args, args]("op"), []string{"/operations/op/result/n", "/profiles/p@1.0.0/operations/op"}},
		"integers are numbers":      {profile(result(`{"type":"object","properties":{"text":{"type":"string"},"n":{"type":"number"}}}`)), add[args, args]("op"), nil},
		"numbers are no integers":   {profile(schema(`{"type":"object","properties":{"text":{"type":"string"},"n":{"type":"number"}},"required":["text"]}`)), add[args, args]("op"), []string{"/operations/op/args/n", "/profiles/p@1.0.0/operations/op"}},
		"elements differ":           {profile(result(`{"type":"array","items":{"type":"string"}}`)), add[args, []int]("op"), []string{"/operations/op/result/items", "/profiles/p@1.0.0/operations/op"}},
		"said twice":                {&mcpserver.Options{Operations: []provider.Operation{{Name: "op", Hints: safe}}, Profiles: profile(schema(text)).Profiles}, add[args, args]("op"), []string{"/operations/op"}},
		"added twice":               {said(provider.Operation{Hints: safe}), func(k *mcpserver.Kit) { add[args, args]("op")(k); add[loose, args]("op")(k) }, []string{"/operations/op"}},
		"repeatable, not once":      {&mcpserver.Options{Operations: []provider.Operation{{Name: "op", Hints: safe}}, Repeatable: []string{"op"}}, add[args, args]("op"), []string{"/repeatable/op"}},
		"negative limit":            {&mcpserver.Options{MaxKeys: -1}, nil, []string{"/options"}},
		"profile without version":   {&mcpserver.Options{Profiles: []*provider.Profile{{Name: "p"}, nil}}, nil, []string{"/profiles", "/profiles"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, s := newKit(tt.opts)
			if tt.add != nil {
				tt.add(k)
			}
			got := issues(t, k)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("issues (-want +got):\n%s", diff)
			}
			_, served := connect(t, mcp.InMemory(s, nil)).Manifest().Operation("op")
			want := tt.add != nil && !slices.ContainsFunc(tt.want, func(p string) bool { return len(p) >= 14 && p[:14] == "/operations/op" })
			if (name == "said twice" || name == "added twice") != (served && !want) || want && !served {
				t.Errorf("served: %t, issues %v", served, got)
			}
		})
	}
}

func TestAKitWithoutAServerSaysSo(t *testing.T) {
	t.Parallel()
	k := mcpserver.New(nil, &mcpserver.Options{Operations: []provider.Operation{{Name: "op", Hints: provider.Hints{ReadOnly: yes()}}}})
	add[struct{}, struct{}]("op")(k)
	if diff := cmp.Diff([]string{"/server"}, issues(t, k)); diff != "" {
		t.Error(diff)
	}
}

func TestResultsThatDoNotFitAreNoSuccess(t *testing.T) {
	t.Parallel()
	once := provider.Facts{Once: true}
	k, s := newKit(&mcpserver.Options{Store: store.Memory(), Operations: []provider.Operation{
		{Name: "list", Hints: provider.Hints{ReadOnly: yes()}},
		{Name: "make", Hints: provider.Hints{Destructive: no()}, Facts: once},
		{Name: "large", Hints: provider.Hints{Destructive: no()}, Facts: once},
	}})
	add[struct{}, []string]("list")(k) // a nil list
	add[struct{}, []string]("make")(k)
	mcpserver.Add(k, "large", func(context.Context, *mcpserver.Call, struct{}) (string, error) {
		return string(make([]byte, 1<<20)), nil
	})
	if err := k.Check(); err != nil {
		t.Fatal(err)
	}
	c := connect(t, mcp.InMemory(s, nil))
	for op, want := range map[string]fault.Code{"list": fault.OpFailed, "make": fault.OutcomeUnknown, "large": fault.OutcomeUnknown} {
		for range 2 {
			wantCode(t, c, &provider.CallRequest{Op: op, Key: provider.Key(op)}, want)
		}
	}
}
