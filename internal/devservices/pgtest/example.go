package pgtest

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/outboxrelay/outbox/internal/devservices"
	"github.com/outboxrelay/outbox/internal/devservices/pgdev"
)

// DatabaseForExample is DatabaseFrom for an Example, which has no testing.TB: it panics when it can make none, and the
// example drops the database itself.
func (s *Shared) DatabaseForExample(template string, prepare func(ctx context.Context, url string) error) (url string, drop func()) {
	s.once.Do(s.start)
	if s.err != nil {
		panic(fmt.Errorf("pgtest: %w", s.err))
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	name, err := s.cluster.CreateFrom(ctx, template, prepare)
	if err != nil {
		panic(fmt.Errorf("pgtest: %w", err))
	}
	return s.cluster.URL(name), func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.cluster.Drop(ctx, name); err != nil {
			panic(fmt.Errorf("pgtest: %w", err))
		}
	}
}

// skipExamples leaves the examples out where the tests that need PostgreSQL are skipped: an Example can't skip itself.
func skipExamples(machine devservices.Machine, installed func() bool) error {
	if machine.CI() || machine.MayInstall() || machine.Getenv(pgdev.EnvURL) != "" || installed() {
		return nil
	}
	flag.Parse()
	skip := flag.Lookup("test.skip")
	fmt.Fprintln(os.Stderr, "pgtest: examples are skipped: PostgreSQL is not installed")
	return skip.Value.Set(withExamples(skip.Value.String()))
}

// withExamples adds the examples to a pattern of what is skipped.
func withExamples(pattern string) string {
	if pattern == "" {
		return "^Example"
	}
	return pattern + "|^Example"
}
