package refs

import "slices"

// prune removes the nodes that lead to no mark, so that walking a value looks
// at nothing else. It returns how many are left.
func (r *schemaReader) prune() int {
	r.keep = r.leading()
	for n := range r.keep {
		for name, child := range n.properties {
			n.properties[name] = r.kept(child)
		}
		for i := range n.patterns {
			n.patterns[i].node = r.kept(n.patterns[i].node)
		}
		for i := range n.prefix {
			n.prefix[i] = r.kept(n.prefix[i])
		}
		n.rest, n.items = r.kept(n.rest), r.kept(n.items)
		n.also = slices.DeleteFunc(n.also, func(more *node) bool { return !r.keep[more] })
	}
	return len(r.keep)
}

func (r *schemaReader) kept(n *node) *node {
	if r.keep[n] {
		return n
	}
	return nil
}

// leading finds the nodes from which a mark can be reached.
func (r *schemaReader) leading() map[*node]bool {
	parents := map[*node][]*node{}
	var reached []*node
	for _, n := range r.order {
		for _, child := range n.all() {
			parents[child] = append(parents[child], n)
		}
		if n.mark != nil {
			reached = append(reached, n)
		}
	}
	leading := map[*node]bool{}
	for len(reached) > 0 {
		n := reached[len(reached)-1]
		reached = reached[:len(reached)-1]
		if !leading[n] {
			leading[n] = true
			reached = append(reached, parents[n]...)
		}
	}
	return leading
}

// all are the nodes that a node leads to.
func (n *node) all() []*node {
	list := add(add(slices.Clone(n.also), n.rest), n.items)
	for _, child := range n.prefix {
		list = add(list, child)
	}
	for _, p := range n.patterns {
		list = add(list, p.node)
	}
	for _, child := range n.properties {
		list = add(list, child)
	}
	return list
}
