package crontab

// heap has the entry whose next instant is first at its beginning. Four
// children each make it flat, and the instants lie beside each other, so that
// most comparisons need no further memory.
type heap []slot

type slot struct {
	next  int64
	entry *entry
}

const arity = 4

// first is the next instant of all; never if there is none.
func (h heap) first() int64 {
	if len(h) == 0 {
		return never
	}
	return h[0].next
}

func (h *heap) push(e *entry) {
	*h = append(*h, slot{})
	h.up(len(*h)-1, slot{e.next, e})
}

// later puts an entry where it belongs after its next instant moved on.
func (h heap) later(e *entry) {
	h.down(e.index, slot{e.next, e})
}

func (h heap) put(i int, s slot) {
	h[i] = s
	s.entry.index = i
}

// up puts s at the hole i or above.
func (h heap) up(i int, s slot) {
	for i > 0 {
		parent := (i - 1) / arity
		if h[parent].next <= s.next {
			break
		}
		h.put(i, h[parent])
		i = parent
	}
	h.put(i, s)
}

// down puts s at the hole i or below.
func (h heap) down(i int, s slot) {
	for {
		least, next := i, s.next
		for child := i*arity + 1; child <= i*arity+arity && child < len(h); child++ {
			if h[child].next < next {
				least, next = child, h[child].next
			}
		}
		if least == i {
			break
		}
		h.put(i, h[least])
		i = least
	}
	h.put(i, s)
}
