package pgstore

import (
	"encoding/json"
	"flag"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/outboxrelay/outbox"
)

// tokens draws a topic, or a pattern when wild ones are given, from few tokens, so that they meet. Some look like parts of
// regular expressions.
func tokens(wild ...string) *rapid.Generator[string] {
	plain := []string{"a", "b", "a-b", "A", "_", "0"}
	return rapid.Custom(func(t *rapid.T) string {
		parts := rapid.SliceOfN(rapid.SampledFrom(append(plain, wild...)), 1, 3).Draw(t, "tokens")
		if len(wild) > 0 && rapid.Bool().Draw(t, "rest") {
			parts = append(parts, ">")
		}
		return strings.Join(parts, ".")
	})
}

// checks sets how often a property of this test is checked, unless the command line says it by -rapid.checks.
func checks(t *testing.T, n int) {
	t.Helper()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.checks" })
	if given {
		return
	}
	checks := flag.Lookup("rapid.checks").Value
	before := checks.String()
	if err := checks.Set(strconv.Itoa(n)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = checks.Set(before) })
}

// TestTopicsAsThePatternsSay: for any set of patterns and any topic PostgreSQL's regular expression decides as
// outbox.TopicSet does, and as the union of a destination's lanes does.
func TestTopicsAsThePatternsSay(t *testing.T) {
	conn := connect(t, migratedDatabase(t))
	patterns := rapid.Custom(func(t *rapid.T) outbox.TopicPattern {
		return outbox.TopicPattern{Pattern: tokens("*", "*", "*").Draw(t, "pattern"), In: rapid.IntRange(0, 3).Draw(t, "in") > 0}
	})
	in, out := 0, 0
	checks(t, 40)
	rapid.Check(t, func(rt *rapid.T) {
		sets := rapid.SliceOfN(rapid.SliceOfN(patterns, 0, 6), 1, 3).Draw(rt, "sets")
		topics := rapid.SliceOfN(tokens(), 1, 20).Draw(rt, "topics")
		for _, p := range slices.Concat(sets...) { // and some that are sure to meet one
			topics = append(topics, strings.NewReplacer("*", "a-b", ">", "a.0").Replace(p.Pattern))
		}
		texts := make([]string, len(sets))
		for i, set := range sets {
			if len(set) == 0 {
				set = outbox.TopicSet{}
			}
			b, err := json.Marshal(set)
			if err != nil {
				rt.Fatal(err)
			}
			texts[i] = string(b)
		}
		rows, err := conn.Query(t.Context(), `
			select t.topic, r.re = '' or coalesce(t.topic ~ r.re, false), coalesce(u.re = '' or t.topic ~ u.re, false)
			from unnest($1::text[]) with ordinality t(topic, n)
			cross join (select outbox.topics_regexp(($2::text[])[1]::jsonb) as re) r
			cross join (
				select case when bool_or(s.re = '') then '' else string_agg(s.re, '|') end as re
				from (select outbox.topics_regexp(x.text::jsonb) as re from unnest($2::text[]) x(text)) s
			) u
			order by t.n`, topics, texts)
		if err != nil {
			rt.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var topic string
			var first, union *bool
			if err := rows.Scan(&topic, &first, &union); err != nil {
				rt.Fatal(err)
			}
			wantFirst, wantAny := outbox.TopicSet(sets[0]).Contains(topic), false
			for _, set := range sets {
				wantAny = wantAny || outbox.TopicSet(set).Contains(topic)
			}
			if got := first != nil && *first; got != wantFirst {
				rt.Errorf("topic %q in %+v: PostgreSQL says %v", topic, sets[0], got)
			}
			if got := union != nil && *union; got != wantAny {
				rt.Errorf("topic %q in any of %+v: PostgreSQL says %v", topic, sets, got)
			}
			if wantFirst {
				in++
			} else {
				out++
			}
		}
		if err := rows.Err(); err != nil {
			rt.Fatal(err)
		}
	})
	least := 50
	if testing.Short() {
		least = 1
	}
	if t.Logf("%d topics were in their sets and %d were not", in, out); in < least || out < least {
		t.Error("too few to prove something")
	}
}
