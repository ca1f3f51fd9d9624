package steps

// Visitor is told about the steps of a tree that need something from the
// harness. Nil functions are skipped. What they get are copies when the tree
// holds values: look, do not change.
type Visitor struct {
	Call  func(*Call)       // of each Call
	Wait  func(*Wait)       // of each Wait, those of a WaitAny included, before its Around
	Model func(*CallModel)  // of each CallModel, structured ones included
	Tool  func(*InvokeTool) // of each InvokeTool

	nest nesting
}

// Visit walks the tree under s, s included: bodies, branches, paths, children
// and what runs around waits. It does not see steps that only code makes, and
// passes over nil ones.
func Visit(s Step, v Visitor) { v.step(s) }

func (v *Visitor) step(s Step) {
	if missing(s) || !v.nest.enter() {
		return
	}
	defer v.nest.leave()
	s.visit(v)
}

func (v *Visitor) each(all []Step) {
	for _, s := range all {
		v.step(s)
	}
}
