package fault_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"

	"github.com/bridle-dev/bridle/fault"
)

// The codes as they are persisted and transmitted. A spelling here never
// changes and never goes; a new constant is added here too.
var (
	configCodes = []fault.Code{
		"CONNECTION_INVALID", "CONNECTION_UNKNOWN", "CONNECTION_NAME_TAKEN", "CONNECTION_TOOL_CONFLICT",
		"CONNECTION_PROFILE_MISMATCH", "CONNECTION_REPLACED", "UNKNOWN_TOOL_CHOICE", "NO_STEP_CONFIGURED",
		"MISSING_MODEL", "STEP_INVALID", "TOOL_INVALID", "HARNESS_INVALID", "EXECUTION_EXISTS",
		"EXECUTION_UNKNOWN",
		"PROVIDER_INVALID", "MODEL_INVALID", "STORE_UNSUPPORTED",
	}
	runCodes = []fault.Code{
		"not_sent", "outcome_unknown", "op_failed", "op_unknown", "args_invalid", "result_invalid",
		"steering_denied", "ref_invalid", "ref_forged", "ref_foreign_thread", "ref_other_lease", "ref_replaced",
		"ref_unknown_connection", "ref_mixed_connections", "blob_unavailable", "secret_unavailable", "approval_closed",
		"op_changed", "budget_exceeded", "audit_failed", "guarded", "connection_unavailable", "pool_timeout", "closed", "timeout", "cancelled", "gap",
		"step_failed", "fork_partial", "loop_exhausted", "model_failed", "model_rate_limit", "model_rejected", "model_refused",
		"model_parse_error", "model_stalled", "panicked", "store_failed", "store_held",
	}
)

func TestCodesKeepTheirSpelling(t *testing.T) {
	want := append(append([]fault.Code{}, configCodes...), runCodes...)
	got := declaredCodes(t)
	for _, code := range want {
		if !slices.Contains(got, code) {
			t.Errorf("the code %s is gone from the package", code)
		}
	}
	for _, code := range got {
		if !slices.Contains(want, code) {
			t.Errorf("the code %s is missing in this test's lists", code)
		}
	}
}

// declaredCodes reads the constants of type Code from the source.
func declaredCodes(t *testing.T) []fault.Code {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "fault.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var codes []fault.Code
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		kind, ok := spec.Type.(*ast.Ident)
		if !ok || kind.Name != "Code" {
			return true
		}
		if literal, ok := spec.Values[0].(*ast.BasicLit); ok {
			code, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			codes = append(codes, fault.Code(code))
		}
		return true
	})
	return codes
}
