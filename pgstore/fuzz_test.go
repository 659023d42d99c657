package pgstore

import (
	"errors"
	"strings"
	"testing"

	"github.com/outboxrelay/outbox"
)

// FuzzRow: whatever a server answers, reading it is an error or a value, never a panic, and an answer of another length
// than was read is an error.
func FuzzRow(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2}, uint8(8), uint8(4), "bi")
	f.Add([]byte{0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, uint8(8), uint8(255), "tT")
	f.Add([]byte{}, uint8(0), uint8(255), "uxBI")
	f.Fuzz(func(t *testing.T, data []byte, first, second uint8, reads string) {
		r := row{columns: columns(data, first, second)}
		count, sizes := len(r.columns), map[byte]int{'b': 8, 'i': 4, 'B': 8, 'I': 4, 'u': 16, 't': 8}
		fits := len(reads) == count
		for i := range len(reads) {
			size, fixed := sizes[reads[i]]
			nullable := reads[i] == 'B' || reads[i] == 'I'
			if i < count {
				c := r.columns[i]
				fits = fits && (c != nil || nullable) && (!fixed || c == nil || len(c) == size)
			}
			readColumn(&r, reads[i])
		}
		if err := r.end(); (err == nil) != fits {
			t.Errorf("%q of %d columns %v: %v", reads, count, r.columns, err)
		}
	})
}

// columns cuts data in three; a length of 255 is NULL.
func columns(data []byte, lengths ...uint8) (list [][]byte) {
	for _, n := range lengths {
		if n == 255 {
			list = append(list, nil)
			continue
		}
		cut := min(int(n), len(data))
		list, data = append(list, data[:cut:cut]), data[cut:]
	}
	return append(list, data)
}

func readColumn(r *row, kind byte) {
	switch kind {
	case 'b':
		r.bigint()
	case 'i':
		r.integer()
	case 'B':
		r.bigintOrNull()
	case 'I':
		r.integerOrNull()
	case 'u':
		r.uuid()
	case 't':
		r.timestamptz()
	case 'T':
		_ = r.text()
	default:
		r.bytes()
	}
}

// FuzzSchemaName: the name of a schema that is accepted cannot end its quotes, and stands in a statement nowhere else
// than where the schema is named.
func FuzzSchemaName(f *testing.F) {
	for _, name := range []string{"outbox", "user", `a"; drop table x; --`, "a'b", "pg_x", "1a", "A", "é", "a\x00", "$1", ""} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		err := checkSchemaName(name)
		_, publisherErr := NewPublisher(&PublishConfig{Schema: name})
		if name != "" && (err == nil) != (publisherErr == nil) {
			t.Errorf("%q: %v, but %v", name, err, publisherErr)
		}
		var refused *outbox.FieldError
		if err != nil && (!errors.As(err, &refused) || refused.Field != "Schema") {
			t.Errorf("%q: %v", name, err)
		}
		if err != nil {
			return
		}
		if strings.ContainsAny(name, "\"'`$\\;-. \x00\n") {
			t.Errorf("%q is accepted", name)
		}
		const sql = "select 'outbox', outbox.f() from outbox.message; create schema outbox"
		want := `select 'N', "N".f() from "N".message; create schema "N"`
		if got := render(sql, name); got != strings.ReplaceAll(want, "N", name) {
			t.Errorf("%q makes %s", name, got)
		}
	})
}
