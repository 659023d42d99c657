package main

import (
	"bytes"
	"io"
	"strings"
	"unicode/utf8"
)

// printTable writes aligned columns.
func (a *app) printTable(rows [][]string) error { return writeTable(a.stdout, a.completed(rows)) }

// writeTable aligns the columns of all rows, two spaces apart. The last cell of a row may be as long as it likes: a command under a row
// moves no column. (text/tabwriter ends a column at a row that does not have it, so that a command would part the table.)
func writeTable(to io.Writer, rows [][]string) error {
	const gap = 2
	var widths []int
	table := make([][]string, len(rows))
	for i, row := range rows {
		table[i] = trimmed(row)
		for column, cell := range table[i] {
			if column == len(widths) {
				widths = append(widths, 0)
			}
			if column < len(table[i])-1 {
				widths[column] = max(widths[column], utf8.RuneCountInString(cell))
			}
		}
	}
	var b bytes.Buffer
	for _, row := range table {
		for column, cell := range row {
			b.WriteString(cell)
			if column < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[column]+gap-utf8.RuneCountInString(cell)))
			}
		}
		b.WriteByte('\n')
	}
	_, err := to.Write(b.Bytes())
	return err
}

// trimmed are the cells of a row without empty ones at its end, each on one line.
func trimmed(row []string) []string {
	cells := make([]string, len(row))
	for i, cell := range row {
		cells[i] = oneLine(cell)
	}
	for len(cells) > 0 && cells[len(cells)-1] == "" {
		cells = cells[:len(cells)-1]
	}
	return cells
}
