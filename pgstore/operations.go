package pgstore

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
)

//go:embed queries/operations.sql
var operationsSQL string

// Operations lists what operators did and are doing; see outbox.Operator.
func (s *Store) Operations(ctx context.Context, limit int) (list []outbox.Operation, err error) {
	const most = 1000
	if limit = cmp.Or(limit, 100); limit < 1 || limit > most {
		return nil, refuse("limit", fmt.Sprint(limit), fmt.Sprintf("must be 1 to %d", most))
	}
	err = s.inspect(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, render(operationsSQL, s.cfg.Schema), pgx.QueryExecModeExec, limit)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, scanOperation)
		return err
	})
	return list, err
}

func scanOperation(row pgx.CollectableRow) (o outbox.Operation, err error) {
	var filter string
	var finished *time.Time
	err = row.Scan(&o.ID, &o.Verb, &o.State, &filter, &o.Actor, &o.Reason, &o.Rate, &o.Matched, &o.Changed, &o.Held, &o.NoPayload,
		&o.StartedAt, &finished)
	if err != nil {
		return o, err
	}
	if finished != nil {
		o.FinishedAt = *finished
	}
	o.Filter, err = filterWords(filter)
	return o, err
}

// filterWords makes words of an operation's filter.
func filterWords(text string) (map[string]string, error) {
	var filter map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &filter); err != nil {
		return nil, fmt.Errorf("read filter: %w", err)
	}
	words := map[string]string{}
	for name, value := range filter {
		var one string
		var many []string
		switch {
		case json.Unmarshal(value, &one) == nil:
			words[name] = one
		case json.Unmarshal(value, &many) == nil:
			words[name] = strings.Join(many, ",")
		case string(value) != "false":
			words[name] = string(value)
		}
	}
	return words, nil
}
