package inmemory

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/bridle-dev/bridle/fault"
	"github.com/bridle-dev/bridle/provider"
)

// maxName bounds names in bytes, as MCP does for tools.
const maxName = 128

// findings collects what is wrong with options.
type findings []fault.Issue

func (f *findings) add(err error, path ...string) {
	if err == nil {
		return
	}
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	for i := range path {
		path[i] = escape.Replace(path[i])
	}
	*f = append(*f, fault.Issue{Path: "/" + strings.Join(path, "/"), Message: err.Error()})
}

func (o Options) check() error {
	var f findings
	o.checkOperations(&f)
	o.checkReads(&f)
	o.checkEvents(&f)
	checkVersions(&f, "Profiles", o.Profiles)
	checkVersions(&f, "Extensions", o.Extensions)
	for i, id := range o.IDs {
		if slices.Contains(o.IDs[:i], id) {
			f.add(fmt.Errorf("connection id %s is given twice", fault.Quote(id)), "IDs", fmt.Sprint(i))
		}
	}
	if len(f) == 0 {
		return nil
	}
	e := fault.New(fault.ProviderInvalid, "in-memory provider")
	e.Issues = f
	return e.WithHint("Correct the named fields of inmemory.Options.")
}

func (o Options) checkOperations(f *findings) {
	for _, name := range slices.Sorted(maps.Keys(o.Operations)) {
		op := o.Operations[name]
		f.add(checkName(name), "Operations", name)
		f.add(op.mistake, "Operations", name)
		if op.Run == nil && op.mistake == nil {
			f.add(fmt.Errorf("has nothing to run: use Func, Reply or set Run"), "Operations", name)
		}
		f.add(checkSchema(op.Args, true), "Operations", name, "Args")
		f.add(checkSchema(op.Result, false), "Operations", name, "Result")
	}
}

func (o Options) checkReads(f *findings) {
	for _, name := range slices.Sorted(maps.Keys(o.Reads)) {
		f.add(checkName(name), "Reads", name)
		if o.Reads[name] == nil {
			f.add(fmt.Errorf("has no function"), "Reads", name)
		}
		if _, taken := o.Operations[name]; taken {
			f.add(fmt.Errorf("is an operation as well; a step could not tell which is meant"), "Reads", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.ReadInfo)) {
		if _, ok := o.Reads[name]; !ok {
			f.add(fmt.Errorf("describes a read that Reads lacks"), "ReadInfo", name)
		}
		f.add(checkSchema(o.ReadInfo[name].Args, true), "ReadInfo", name, "Args")
		f.add(checkSchema(o.ReadInfo[name].Result, false), "ReadInfo", name, "Result")
	}
}

func (o Options) checkEvents(f *findings) {
	for _, name := range slices.Sorted(maps.Keys(o.Events)) {
		e := o.Events[name]
		f.add(checkName(name), "Events", name)
		f.add(checkSchema(e.Args, true), "Events", name, "Args")
		f.add(checkSchema(e.Payload, false), "Events", name, "Payload")
		if e.Replay != provider.ReplayLive && e.Replay != provider.ReplayCursor {
			f.add(fmt.Errorf("has the unknown replay %s", fault.Quote(string(e.Replay))), "Events", name, "Replay")
		}
	}
}

func checkVersions(f *findings, field string, versions []string) {
	for i, v := range versions {
		name, version, ok := strings.Cut(v, "@")
		if !ok || name == "" || version == "" {
			f.add(fmt.Errorf("%s is not a name@version", fault.Quote(v)), field, fmt.Sprint(i))
		}
	}
}

func checkName(name string) error {
	bad := func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }
	switch {
	case name == "":
		return fmt.Errorf("name is empty")
	case len(name) > maxName:
		return fmt.Errorf("name is longer than %d bytes: %s", maxName, fault.Quote(name))
	case strings.ContainsFunc(name, bad):
		return fmt.Errorf("name has white space or control characters: %s", fault.Quote(name))
	}
	return nil
}
