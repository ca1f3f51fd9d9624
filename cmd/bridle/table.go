package main

import (
	"strings"
	"text/tabwriter"
)

// On a terminal a column is at most so many characters wide, and the last one,
// which says why, longer.
const (
	maxCell = 60
	maxWhy  = 160
)

// table is rows of cells that come from anywhere. The column that says a state
// is coloured.
type table struct {
	c      *command
	header []string
	rows   [][]string
}

func (c *command) table(header ...string) *table { return &table{c: c, header: header} }

func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

// print writes the table: two spaces between columns, "-" for what is empty.
// Only on a terminal are cells cut, and only there is the state coloured.
func (t *table) print() error {
	w := tabwriter.NewWriter(t.c.out, 0, 8, 2, ' ', 0)
	line := func(cells []string, head bool) error {
		out := make([]string, len(cells))
		for i, cell := range cells {
			if cell = plain(cell); cell == "" {
				cell = "-"
			}
			if t.c.outTTY && t.c.format == formatTable {
				limit := maxCell
				if i == len(cells)-1 {
					limit = maxWhy
				}
				cell = cut(cell, limit)
			}
			if t.header[i] == "STATE" && t.c.colour() {
				cell = paint(cell, head)
			}
			out[i] = cell
		}
		_, err := w.Write([]byte(strings.Join(out, "\t") + "\n"))
		return err
	}
	if err := line(t.header, true); err != nil {
		return err
	}
	for _, row := range t.rows {
		if err := line(row, false); err != nil {
			return err
		}
	}
	return w.Flush()
}

// colour reports whether what is written to the output may be coloured.
func (c *command) colour() bool {
	switch {
	case c.env("NO_COLOR") != "" || c.format != formatTable && c.format != formatWide:
		return false
	case c.env("CLICOLOR_FORCE") != "":
		return true
	}
	return c.outTTY && c.env("TERM") != "dumb"
}

// paint colours a state. Every cell of the column, the header too, gets as many
// invisible characters, so that columns stay in line.
func paint(word string, head bool) string {
	code := "39" // as it is
	switch word {
	case stateOK, stateDone:
		code = "32"
	case stateFailed, stateCancelled, stateDead:
		code = "31"
	case stateUnknown, stateCut, stateWaiting, statePending:
		code = "33"
	}
	if head {
		code = "39"
	}
	return "\x1b[" + code + "m" + word + "\x1b[0m"
}
