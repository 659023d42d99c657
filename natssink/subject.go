package natssink

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/template"
)

// subject is a parsed template of subjects.
type subject template.Template

const subjectBound = "must be dot-separated tokens of text, {topic}, {key} and {header.NAME}"

// parseSubject parses a template such as "events.{topic}". The error is a *outbox.FieldError.
func parseSubject(text string) (subject, error) {
	t, err := template.Parse(text)
	if err == nil {
		err = checkSubject(t.Join(func(template.Part) string { return "x" }))
	}
	if err != nil {
		return nil, fieldError("Config.Subject", text, subjectBound+": "+err.Error())
	}
	return subject(t), nil
}

// of makes the subject of a message.
func (s subject) of(d *outbox.Delivery) (string, error) {
	made := template.Template(s).Of(d)
	if err := checkSubject(made); err != nil {
		return "", fmt.Errorf("the message makes no valid subject: %q: %w", made, err)
	}
	return made, nil
}

// pattern is the subject pattern of all messages of a topic pattern. It covers more than that where a variable
// stands for an unknown number of tokens.
func (s subject) pattern(topic string) string {
	before := ""
	for i, p := range s {
		switch {
		case p.Kind == template.Literal:
			before += p.Text
		case p.Kind == template.Topic && (i == len(s)-1 || !strings.HasSuffix(topic, ">")):
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
