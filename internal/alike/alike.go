// Package alike gathers dead messages whose errors differ in numbers and ids only.
package alike

import (
	"cmp"
	"slices"
	"strings"

	"github.com/outboxrelay/outbox"
)

// Groups are dead messages by topic, class and folded text. The zero value is ready to use.
type Groups struct {
	groups map[[3]string]*outbox.DeadGroup
}

// Add adds messages, whose Text is an error as it is, to those that are alike.
func (gs *Groups) Add(g outbox.DeadGroup) {
	g.Text = Fold(g.Text)
	kind := [3]string{g.Topic, g.Class, g.Text}
	have := gs.groups[kind]
	if have == nil {
		if gs.groups == nil {
			gs.groups = map[[3]string]*outbox.DeadGroup{}
		}
		gs.groups[kind] = &g
		return
	}
	have.Messages += g.Messages
	have.Holding += g.Holding
	if g.Last.After(have.Last) {
		have.Last, have.Example = g.Last, g.Example
	}
	if g.First.Before(have.First) {
		have.First = g.First
	}
}

// List are the groups, the most frequent first.
func (gs *Groups) List() (list []outbox.DeadGroup) {
	for _, g := range gs.groups {
		list = append(list, *g)
	}
	slices.SortFunc(list, func(a, b outbox.DeadGroup) int {
		return cmp.Or(cmp.Compare(b.Messages, a.Messages), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Class, b.Class), cmp.Compare(a.Text, b.Text))
	})
	return list
}

// Fold replaces what differs between errors that are alike: words of digits and letters, as in UUIDs, hashes and numbers.
func Fold(text string) string {
	var b strings.Builder
	for len(text) > 0 {
		n := 0
		for n < len(text) && isWord(text[n]) {
			n++
		}
		if n == 0 {
			b.WriteByte(text[0])
			text = text[1:]
			continue
		}
		b.WriteString(foldWord(&n, text))
		text = text[n:]
	}
	return b.String()
}

func isWord(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c >= 0x80
}

// foldWord returns what stands for the word of n bytes with which the text begins; a UUID is longer than its first word.
func foldWord(n *int, text string) string {
	const uuid = len("00000000-0000-0000-0000-000000000000")
	if len(text) >= uuid && (len(text) == uuid || !isWord(text[uuid])) {
		if _, err := outbox.ParseID(text[:uuid]); err == nil {
			*n = uuid
			return "UUID"
		}
	}
	word := text[:*n]
	digits := 0
	for i := range len(word) {
		if word[i] >= '0' && word[i] <= '9' {
			digits++
		}
	}
	const shortestHash = 8
	switch {
	case digits == 0:
		return word
	case len(word) >= shortestHash && strings.Trim(word, "0123456789abcdefABCDEF") == "" && digits < len(word):
		return "HEX"
	}
	return foldDigits(word)
}

// foldDigits replaces each run of digits by N.
func foldDigits(word string) string {
	var b strings.Builder
	inNumber := false
	for i := range len(word) {
		digit := word[i] >= '0' && word[i] <= '9'
		switch {
		case !digit:
			b.WriteByte(word[i])
		case !inNumber:
			b.WriteByte('N')
		}
		inNumber = digit
	}
	return b.String()
}
