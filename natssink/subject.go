package natssink

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/outboxrelay/outbox"
)

// subject is a parsed template of subjects.
type subject []part

// part is a literal text or a variable.
type part struct {
	kind partKind
	text string // the literal, or the header's name
}

type partKind uint8

const (
	literal partKind = iota
	topicPart
	keyPart
	headerPart
)

const subjectBound = "must be dot-separated tokens of text, {topic}, {key} and {header.NAME}"

// parseSubject parses a template such as "events.{topic}". The error is a *outbox.FieldError.
func parseSubject(template string) (subject, error) {
	bad := func(why string) (subject, error) {
		return nil, fieldError("Config.Subject", template, subjectBound+": "+why)
	}
	var s subject
	for rest := template; rest != ""; {
		text, after, found := strings.Cut(rest, "{")
		if strings.Contains(text, "}") {
			return bad("a } without its {")
		}
		if text != "" {
			s = append(s, part{literal, text})
		}
		if !found {
			break
		}
		name, after, closed := strings.Cut(after, "}")
		if !closed {
			return bad("a { without its }")
		}
		p, ok := parsePart(name)
		if !ok {
			return bad("unknown variable {" + name + "}")
		}
		s, rest = append(s, p), after
	}
	if err := checkSubject(s.join(func(part) string { return "x" })); err != nil {
		return bad(err.Error())
	}
	return s, nil
}

func parsePart(name string) (part, bool) {
	header, isHeader := strings.CutPrefix(name, "header.")
	switch {
	case name == "topic":
		return part{kind: topicPart}, true
	case name == "key":
		return part{kind: keyPart}, true
	case isHeader && header != "" && !strings.ContainsFunc(header, notHeaderName):
		return part{headerPart, header}, true
	}
	return part{}, false
}

func notHeaderName(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-')
}

// join puts the parts together; value gives those of the variables.
func (s subject) join(value func(part) string) string {
	if len(s) == 1 {
		if s[0].kind == literal {
			return s[0].text
		}
		return value(s[0])
	}
	var b strings.Builder
	for _, p := range s {
		if p.kind == literal {
			b.WriteString(p.text)
		} else {
			b.WriteString(value(p))
		}
	}
	return b.String()
}

// of makes the subject of a message.
func (s subject) of(d *outbox.Delivery) (string, error) {
	made := s.join(func(p part) string {
		switch p.kind {
		case topicPart:
			return d.Topic
		case keyPart:
			return d.Key
		}
		return headerOf(d, p.text)
	})
	if err := checkSubject(made); err != nil {
		return "", fmt.Errorf("the message makes no valid subject: %q: %w", made, err)
	}
	return made, nil
}

// headerOf finds a header without regard to case.
func headerOf(d *outbox.Delivery, name string) string {
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

// pattern is the subject pattern of all messages of a topic pattern. It covers more than that where a variable
// stands for an unknown number of tokens.
func (s subject) pattern(topic string) string {
	before := ""
	for i, p := range s {
		switch {
		case p.kind == literal:
			before += p.text
		case p.kind == topicPart && (i == len(s)-1 || !strings.HasSuffix(topic, ">")):
			before += topic
		default:
			return openEnded(before)
		}
	}
	if isPattern(before) {
		return before
	}
	return openEnded(before)
}

// openEnded is all that begins with the complete tokens of the text.
func openEnded(text string) string {
	return text[:strings.LastIndexByte(text, '.')+1] + ">"
}

// isPattern: wildcards stand alone in their tokens.
func isPattern(text string) bool {
	for token := range strings.SplitSeq(text, ".") {
		if len(token) > 1 && strings.ContainsAny(token, "*>") {
			return false
		}
	}
	return true
}

// checkSubject reports what is wrong with a subject to publish to.
func checkSubject(s string) error {
	if !utf8.ValidString(s) {
		return fmt.Errorf("not valid UTF-8")
	}
	if s == "" || s[0] == '.' || s[len(s)-1] == '.' || strings.Contains(s, "..") {
		return fmt.Errorf("an empty token")
	}
	if strings.HasPrefix(s, "$") {
		return fmt.Errorf("subjects that begin with $ are the server's")
	}
	for _, r := range s {
		if r == '*' || r == '>' || r == ' ' || unicode.IsControl(r) || unicode.IsSpace(r) {
			return fmt.Errorf("the character %q", r)
		}
	}
	return nil
}

// overlaps reports whether some subject belongs to both patterns.
func overlaps(a, b string) bool {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := 0; ; i++ {
		switch {
		case i == len(as) || i == len(bs):
			return len(as) == len(bs)
		case as[i] == ">" || bs[i] == ">":
			return true
		case as[i] != "*" && bs[i] != "*" && as[i] != bs[i]:
			return false
		}
	}
}

// covers reports whether every subject of the narrow pattern belongs to the wide one.
func covers(wide, narrow string) bool {
	ws, ns := strings.Split(wide, "."), strings.Split(narrow, ".")
	for i := 0; ; i++ {
		switch {
		case i == len(ws) || i == len(ns):
			return len(ws) == len(ns)
		case ws[i] == ">":
			return true
		case ns[i] == ">" || ws[i] != "*" && ws[i] != ns[i]:
			return false
		}
	}
}
