package main

import (
	"bytes"
	"testing"
)

// TestTable: a command under a row, or a long cell at the end of one, moves no column of the rows after it.
func TestTable(t *testing.T) {
	var b bytes.Buffer
	rows := [][]string{
		{"KEY", "HELD", "LAST ERROR"}, {"ü", "6h02m", "a\nlong error"}, {"", "", "→ outbox retry --id 1"},
		{"customer-7", "1m", ""}, {"", "→ outbox resume, a long command"}, {"k", "", "short"}, {},
	}
	if err := writeTable(&b, rows); err != nil {
		t.Fatal(err)
	}
	const want = "KEY         HELD   LAST ERROR\n" +
		"ü           6h02m  a long error\n" +
		"                   → outbox retry --id 1\n" +
		"customer-7  1m\n" +
		"            → outbox resume, a long command\n" +
		"k                  short\n" +
		"\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}
