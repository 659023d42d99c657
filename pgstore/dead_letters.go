package pgstore

import (
	"cmp"
	"context"
	_ "embed"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
)

//go:embed queries/dead_letters.sql
var deadLettersSQL string

// DeadLetters groups the dead messages; see outbox.Inspector.
func (s *Store) DeadLetters(ctx context.Context) (letters outbox.DeadLetters, err error) {
	groups := map[[3]string]*outbox.DeadGroup{}
	err = s.inspect(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, render(deadLettersSQL, s.cfg.Schema), pgx.QueryExecModeExec)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var g outbox.DeadGroup
			var text *string
			err := rows.Scan(&g.Topic, &g.Class, &text, &g.Messages, &g.Holding, &g.First, &g.Last, &g.Example, &letters.Messages.Messages)
			if err != nil {
				return err
			}
			g.Text = fold(orZero(text))
			addGroup(groups, g)
		}
		return rows.Err()
	})
	if letters.Messages.Messages > countBound {
		letters.Messages = outbox.Depth{Messages: countBound, AtLeast: true}
	}
	for _, g := range groups {
		letters.Groups = append(letters.Groups, *g)
	}
	slices.SortFunc(letters.Groups, func(a, b outbox.DeadGroup) int {
		return cmp.Or(cmp.Compare(b.Messages, a.Messages), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Class, b.Class), cmp.Compare(a.Text, b.Text))
	})
	return letters, err
}

// addGroup adds messages to those that are alike.
func addGroup(groups map[[3]string]*outbox.DeadGroup, g outbox.DeadGroup) {
	kind := [3]string{g.Topic, g.Class, g.Text}
	have := groups[kind]
	if have == nil {
		groups[kind] = &g
		return
	}
	have.Messages += g.Messages
	have.Holding += g.Holding
	if g.Last.After(have.Last) {
		have.Last, have.Example = g.Last, g.Example
	}
	have.First = earlier(have.First, g.First)
}

// fold replaces what differs between errors that are alike: words of digits and letters, as in UUIDs, hashes and numbers.
func fold(text string) string {
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
