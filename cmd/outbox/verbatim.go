package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"unicode/utf8"
)

// payloadMark stands in a document for a payload until it is encoded, since encoding compacts what it is given. It is no text that comes from
// elsewhere: encoding escapes no letter.
const payloadMark = `"\u0070"`

// encode makes a line of JSON. The marks in it become these payloads, in their order, byte for byte.
func encode(v any, payloads ...[]byte) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil || len(payloads) == 0 {
		return buf.Bytes(), err
	}
	var text []byte
	rest := buf.Bytes()
	for _, payload := range payloads {
		before, after, _ := bytes.Cut(rest, []byte(payloadMark))
		text = append(append(text, before...), payload...)
		rest = after
	}
	return append(text, rest...), nil
}

// isVerbatim reports whether a payload can stand in a line of JSON as it is and be read again byte by byte: it is JSON and UTF-8, on one line,
// without white space around it, and not as deeply nested as JSON may be, for it is a value of an object there.
func isVerbatim(payload []byte) bool {
	return len(payload) > 0 && utf8.Valid(payload) && !bytes.ContainsRune(payload, '\n') &&
		len(bytes.TrimSpace(payload)) == len(payload) && json.Valid(slices.Concat([]byte{'['}, payload, []byte{']'}))
}
