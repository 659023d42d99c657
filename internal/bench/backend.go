package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/pgstore"
)

// Backend is a store of some database, with some engine, whose backlogs are drained.
type Backend interface {
	Refill(ctx context.Context, l Backlog) error
	Left(ctx context.Context, stay int64) (int64, error)
	Stores(ctx context.Context, w *Wire, notify pgstore.NotifyMode) (outbox.Store, func(), error)
}

// Engine is a Backend by name. The private server is there for all of them.
type Engine struct {
	Name string
	Open func(s *Server) (Backend, error)
}

// engines are all there are; the first is the default.
func engines() []Engine {
	return []Engine{
		{"poll", func(s *Server) (Backend, error) { return s, nil }},
		{"wal", func(s *Server) (Backend, error) { return streaming{s}, nil }},
		{"sqlite", func(*Server) (Backend, error) { return openSQLite() }},
	}
}

func engineNames() (names []string) {
	for _, e := range engines() {
		names = append(names, e.Name)
	}
	return names
}

// openBackend finds the engine that the options name.
func openBackend(s *Server, name string) (Backend, error) {
	all := engines()
	i := slices.IndexFunc(all, func(e Engine) bool { return e.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("no engine %q; there are %s", name, strings.Join(engineNames(), ", "))
	}
	return all[i].Open(s)
}
