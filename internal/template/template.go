// Package template makes texts such as subjects and routing keys from a message, by templates with the variables
// {topic}, {key} and {header.NAME}.
package template

import (
	"errors"
	"fmt"
	"strings"

	"github.com/outboxrelay/outbox"
)

// Template is a parsed template.
type Template []Part

// Part is a literal text or a variable.
type Part struct {
	Kind Kind
	Text string // the literal, or the header's name
}

// Kind of a part.
type Kind uint8

// Kinds of parts.
const (
	Literal Kind = iota
	Topic
	Key
	Header
)

// Parse parses a template such as "events.{topic}".
func Parse(text string) (Template, error) {
	var t Template
	for rest := text; rest != ""; {
		text, after, found := strings.Cut(rest, "{")
		if strings.Contains(text, "}") {
			return nil, errors.New("a } without its {")
		}
		if text != "" {
			t = append(t, Part{Literal, text})
		}
		if !found {
			break
		}
		name, after, closed := strings.Cut(after, "}")
		if !closed {
			return nil, errors.New("a { without its }")
		}
		p, ok := variable(name)
		if !ok {
			return nil, fmt.Errorf("unknown variable {%s}", name)
		}
		t, rest = append(t, p), after
	}
	return t, nil
}

func variable(name string) (Part, bool) {
	header, isHeader := strings.CutPrefix(name, "header.")
	switch {
	case name == "topic":
		return Part{Kind: Topic}, true
	case name == "key":
		return Part{Kind: Key}, true
	case isHeader && IsHeaderName(header):
		return Part{Header, header}, true
	}
	return Part{}, false
}

// IsHeaderName reports whether the text has only the characters of header names, and at least one.
func IsHeaderName(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-')
	})
}

// Join puts the parts together; value gives those of the variables.
func (t Template) Join(value func(Part) string) string {
	if len(t) == 1 {
		if t[0].Kind == Literal {
			return t[0].Text
		}
		return value(t[0])
	}
	var b strings.Builder
	for _, p := range t {
		if p.Kind == Literal {
			b.WriteString(p.Text)
		} else {
			b.WriteString(value(p))
		}
	}
	return b.String()
}

// Of makes the text of a message. What the message has not is empty.
func (t Template) Of(d *outbox.Delivery) string {
	return t.Join(func(p Part) string {
		switch p.Kind {
		case Topic:
			return d.Topic
		case Key:
			return d.Key
		}
		return HeaderOf(d, p.Text)
	})
}

// HeaderOf finds a header without regard to case; empty if there is none.
func HeaderOf(d *outbox.Delivery, name string) string {
	if v, ok := d.Headers[name]; ok {
		return v
	}
	for other, v := range d.Headers {
		if strings.EqualFold(other, name) {
			return v
		}
	}
	return ""
}
