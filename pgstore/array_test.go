package pgstore

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// decodeArray reads the text form of a one-dimensional array of quoted texts and nulls, written after the
// documentation of array_in and not after the encoder.
func decodeArray(s string) (elements []*string, err error) {
	malformed := errors.New("malformed array: " + s)
	if len(s) < 2 || s[0] != '{' || s[len(s)-1] != '}' {
		return nil, malformed
	}
	s = s[1 : len(s)-1]
	for s != "" {
		if len(elements) > 0 {
			if s[0] != ',' {
				return nil, malformed
			}
			s = s[1:]
		}
		if rest, ok := strings.CutPrefix(s, "NULL"); ok {
			elements, s = append(elements, nil), rest
			continue
		}
		element, rest, ok := decodeQuoted(s)
		if !ok {
			return nil, malformed
		}
		elements, s = append(elements, &element), rest
	}
	return elements, nil
}

func decodeQuoted(s string) (element, rest string, ok bool) {
	if s == "" || s[0] != '"' {
		return "", "", false
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), s[i+1:], true
		case '\\':
			if i++; i == len(s) {
				return "", "", false
			}
			b.WriteByte(s[i])
		default:
			b.WriteByte(s[i])
		}
	}
	return "", "", false
}

func FuzzTextArray(f *testing.F) {
	for _, text := range hostile {
		f.Add(text, "x", true)
	}
	f.Fuzz(func(t *testing.T, first, second string, null bool) {
		var a textArray
		want := []string{first, second}
		a.text(first)
		if null {
			a.null()
			want = []string{first, "null", second}
		}
		a.text(second)
		elements, err := decodeArray(a.String())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for i, e := range elements {
			switch {
			case e != nil:
				got = append(got, *e)
			case null && i == 1:
				got = append(got, "null")
			default:
				t.Fatalf("element %d is null", i)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q became %q", want, got)
		}
	})
}

// TestDecodeArray: the reference decoder refuses what an encoder that forgets to quote would make.
func TestDecodeArray(t *testing.T) {
	for _, text := range []string{``, `{`, `{a}`, `{"a}`, `{"a"b"}`, `{"a","b`, `{"a\"}`, `{"a""b"}`, `{"a",}`} {
		if elements, err := decodeArray(text); err == nil {
			t.Errorf("%s: %d elements", text, len(elements))
		}
	}
}

// TestTextArrayServer: the server reads what is written as the reference decoder does.
func TestTextArrayServer(t *testing.T) {
	t.Parallel()
	conn := connect(t, postgres.Database(t))
	var a textArray
	var want []*string
	for _, text := range append(slices.Clone(hostile), "", "\n", "\t\v\f\r", "\x01", "\u0085") {
		a.text(text)
		want = append(want, &text)
		a.null()
		want = append(want, nil)
	}
	for b := range 256 {
		text := string([]byte{'x', byte(b)})
		if b == 0 || !utf8.ValidString(text) {
			continue
		}
		a.text(text)
		want = append(want, &text)
	}
	same := func(a, b *string) bool { return a == nil && b == nil || a != nil && b != nil && *a == *b }
	if got := value[[]*string](t, conn, "select $1::text::text[]", a.String()); !slices.EqualFunc(got, want, same) {
		t.Error("the server reads something else")
	}
	if got, err := decodeArray(a.String()); err != nil || !slices.EqualFunc(got, want, same) {
		t.Errorf("the reference decoder reads something else, %v", err)
	}
	var none, numbers textArray
	numbers.number(-1)
	numbers.null()
	if got := value[string](t, conn, "select $1::text::int[]::text || $2::text::int[]::text", none.String(), numbers.String()); got != "{}{-1,NULL}" {
		t.Error(got)
	}
}
