package refstest

import "testing"

// CaseNames lists the cases that a Config allows.
func CaseNames(cfg Config) []string {
	var names []string
	for _, c := range cases(cfg) {
		names = append(names, c.name)
	}
	return names
}

// RunCase runs one case as a subtest.
func RunCase(t *testing.T, cfg Config, name string) {
	for _, c := range cases(cfg) {
		if c.name == name {
			t.Run(name, func(t *testing.T) { runCase(t, cfg, c) })
			return
		}
	}
	t.Fatalf("there is no case %s", name)
}
