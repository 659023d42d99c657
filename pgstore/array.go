package pgstore

import (
	"strconv"
	"strings"
)

// textArray builds the text form of a PostgreSQL array, {"a",NULL,"b"}. Lists are sent as one text argument with a
// cast on the server, because the drivers differ in how, and whether, they encode arrays; text they all agree on.
// Elements must not contain NUL bytes.
type textArray struct{ b strings.Builder }

var arrayEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

func (a *textArray) begin() {
	if a.b.Len() == 0 {
		a.b.WriteByte('{')
	} else {
		a.b.WriteByte(',')
	}
}

// text adds an element. Every element is quoted: unquoted ones would lose spaces and turn NULL into a null.
func (a *textArray) text(s string) {
	a.begin()
	a.b.WriteByte('"')
	_, _ = arrayEscapes.WriteString(&a.b, s) // a strings.Builder does not fail
	a.b.WriteByte('"')
}

// textOrNull adds an element, a null for the empty string.
func (a *textArray) textOrNull(s string) {
	if s == "" {
		a.null()
		return
	}
	a.text(s)
}

func (a *textArray) null() {
	a.begin()
	a.b.WriteString("NULL")
}

func (a *textArray) number(n int64) {
	a.begin()
	a.b.WriteString(strconv.FormatInt(n, 10))
}

func (a *textArray) bool(v bool) {
	a.begin()
	a.b.WriteString(strconv.FormatBool(v))
}

func (a *textArray) String() string {
	if a.b.Len() == 0 {
		return "{}"
	}
	return a.b.String() + "}"
}
