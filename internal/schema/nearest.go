package schema

import (
	"cmp"
	"iter"
	"slices"
	"strings"
)

// maxNamed bounds the names that are compared, in bytes: the comparison takes
// time that grows with the product of the lengths.
const maxNamed = 128

// Nearest returns up to limit of the names that somebody who wrote name may
// have meant, the nearest first: those a few letters away, and those that
// contain it or are contained in it.
func Nearest(name string, names iter.Seq[string], limit int) []string {
	if name == "" || len(name) > maxNamed {
		return nil
	}
	type candidate struct {
		name string
		far  int
	}
	var near []candidate
	most := max(1, (len(name)+1)/3)
	for n := range names {
		if far := distance(name, n, most); far <= most {
			near = append(near, candidate{n, far})
		}
	}
	slices.SortFunc(near, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.far, b.far), cmp.Compare(a.name, b.name))
	})
	var out []string
	for _, c := range near[:min(limit, len(near))] {
		out = append(out, c.name)
	}
	return out
}

// distance is how many letters must change to get from a to b, case aside;
// anything above most when it is more than that.
func distance(a, b string, most int) int {
	a, b = strings.ToLower(a), strings.ToLower(b)
	if len(b) > maxNamed {
		return most + 1
	}
	if len(a) > 2 && len(b) > 2 && (strings.Contains(a, b) || strings.Contains(b, a)) {
		return min(1, most)
	}
	if d := len(a) - len(b); d > most || -d > most {
		return most + 1
	}
	return levenshtein(a, b)
}

// levenshtein counts the bytes to insert, remove or replace.
func levenshtein(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			above := row[j+1]
			if a[i] == b[j] {
				row[j+1] = diagonal
			} else {
				row[j+1] = 1 + min(diagonal, above, row[j])
			}
			diagonal = above
		}
	}
	return row[len(b)]
}
