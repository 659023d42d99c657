package history

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// decoder turns lines into events. Those that Log writes are flat and almost always plain ASCII; it reads
// them by itself, many times faster than package json, keeps one copy of the strings that repeat, and leaves
// everything else to package json.
type decoder struct {
	strings map[string]string
}

func (d decoder) decode(line []byte) (Event, error) {
	if e, ok := d.plain(line); ok {
		return e, nil
	}
	var e Event
	err := json.Unmarshal(line, &e)
	return e, err
}

// plain reads {"name":value,…} with values that are strings without escapes, whole numbers or true.
// It reports false for anything else.
func (d decoder) plain(line []byte) (e Event, ok bool) {
	rest, ok := bytes.CutPrefix(line, []byte("{"))
	for ok {
		var name, value []byte
		if name, rest, ok = cutString(rest); !ok {
			return e, false
		}
		if rest, ok = bytes.CutPrefix(rest, []byte(":")); !ok {
			return e, false
		}
		if value, rest, ok = cutValue(rest); !ok || !d.set(&e, name, value) {
			return e, false
		}
		if string(rest) == "}\n" {
			return e, true
		}
		rest, ok = bytes.CutPrefix(rest, []byte(","))
	}
	return e, false
}

// cutString takes a string without its quotes.
func cutString(b []byte) (s, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != '"' {
		return nil, nil, false
	}
	for i, c := range b[1:] {
		if c == '"' {
			return b[1 : i+1], b[i+2:], true
		}
		if c < ' ' || c > '~' || c == '\\' {
			break
		}
	}
	return nil, nil, false
}

// cutValue takes a string with its opening quote, or a bare word.
func cutValue(b []byte) (value, rest []byte, ok bool) {
	if s, rest, ok := cutString(b); ok {
		return b[:len(s)+1], rest, true
	}
	i := bytes.IndexAny(b, ",}")
	if i < 1 || b[0] == '"' {
		return nil, nil, false
	}
	return b[:i], b[i:], true
}

func (d decoder) set(e *Event, name, value []byte) bool {
	if value[0] == '"' {
		field := e.text(string(name))
		if field != nil {
			*field = d.shared(value[1:])
		}
		return field != nil
	}
	if string(name) == "deferred" {
		e.Deferred = true
		return string(value) == "true"
	}
	field := e.number(string(name))
	if field == nil || value[0] == '+' || len(value) > 1 && value[0] == '0' || bytes.HasPrefix(value, []byte("-0")) {
		return false
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	*field = n
	return err == nil
}

func (e *Event) text(name string) *string {
	switch name {
	case "kind":
		return (*string)(&e.Kind)
	case "process":
		return &e.Process
	case "relay":
		return &e.Relay
	case "message":
		return &e.Message
	case "topic":
		return &e.Topic
	case "key":
		return &e.Key
	case "destination":
		return &e.Destination
	case "payload":
		return &e.Payload
	case "outcome":
		return &e.Outcome
	}
	return nil
}

func (e *Event) number(name string) *int64 {
	switch name {
	case "at":
		return &e.At
	case "seq":
		return &e.Seq
	case "claim":
		return &e.Claim
	case "attempt":
		return &e.Attempt
	case "since":
		return &e.Since
	case "until":
		return &e.Until
	}
	return nil
}

func (d decoder) shared(b []byte) string {
	if s, known := d.strings[string(b)]; known {
		return s
	}
	s := string(b)
	d.strings[s] = s
	return s
}
