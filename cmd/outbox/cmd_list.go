package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/outboxrelay/outbox"
)

func (a *app) listCommand() *cobra.Command {
	var q outbox.ListQuery
	var states []string
	var older, newer string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List messages",
		Long: `List messages: ready, waiting and dead ones, or those in the states that --state names; what has ended (delivered, dropped, expired,
discarded) is there if it is kept. In publish order, state by state. --after goes on where a page has ended; a page also ends where it has
looked at 100,000 messages, so it answers soon however many there are. Payloads are not read unless --payload is given. DESTINATION is
where a replay has bound a message to, and where one went that has ended; the others go by route.

Ages count from a dead message's death, from the end of one that has ended, and from the publishing of any other.

Exit codes: 0 there are messages, 1 failed, 2 usage, 3 no message matches.`,
		Example: `  outbox list --state dead --class timeout --newer-than 1h
  outbox list --key order-7 --state ready,waiting,dead,delivered --payload --json`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&states, "state", nil, "messages in these `states`: ready, waiting, dead, delivered, dropped, expired, discarded")
	flags.StringVar(&q.Topic, "topic", "", "messages of this topic or `pattern`, such as orders.>")
	flags.StringVar(&q.Key, "key", "", "messages of this `key`")
	flags.StringVar(&q.Class, "class", "", "messages whose last error is of this `class`, such as timeout")
	flags.StringVar(&q.Text, "error", "", "messages whose last error has this `text` in it")
	flags.StringVar(&q.BoundTo, "destination", "", "messages that a replay has bound to the destination of this `name`, and those that have ended and went there")
	flags.StringVar(&older, "older-than", "", "messages that are older than this `duration`, such as 90m or 2d")
	flags.StringVar(&newer, "newer-than", "", "messages that are newer than this `duration`")
	flags.Int64Var(&q.Limit, "limit", 100, "at most this `many` messages, up to 1000")
	flags.StringVar(&q.After, "after", "", "go on after this `place`, which the page before has named")
	flags.BoolVar(&q.Payload, "payload", false, "also payloads and headers")
	addSettings(cmd, scopeDatabase)
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		for _, s := range states {
			q.States = append(q.States, outbox.State(s))
		}
		err := errors.Join(parseAge("--older-than", older, &q.OlderThan), parseAge("--newer-than", newer, &q.NewerThan))
		if err == nil {
			err = q.Check()
		}
		if err != nil {
			return &failure{exitUsage, err}
		}
		return a.withOutbox(cmd, func(ctx context.Context, _ *config, store outboxStore) error {
			page, err := store.List(ctx, q)
			if err != nil {
				return err
			}
			return a.printPage(&page, q.Payload)
		})
	})
	return cmd
}

func parseAge(flag, text string, to *time.Duration) (err error) {
	if text == "" {
		return nil
	}
	if *to, err = outbox.ParseDuration(text); err != nil {
		return fmt.Errorf("%s %q: %w", flag, text, err)
	}
	return nil
}

func (a *app) showCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show all that is stored of one message",
		Long: `Show all that is stored of one message, with its payload and headers: where it is, and once for each time that it has ended and
was kept. Why it is not delivered, outbox why tells.

Exit code 3 says that nothing is stored of it.`,
		Example: "  outbox show 019545c8-4c35-7000-8000-000000000001",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("which message? give its id, and nothing else (%d arguments)", len(args))
			}
			return nil
		},
	}
	addSettings(cmd, scopeDatabase)
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		id, err := outbox.ParseID(args[0])
		if err != nil {
			return failf(exitUsage, "%q is no UUID", args[0])
		}
		return a.withOutbox(cmd, func(ctx context.Context, _ *config, store outboxStore) error {
			list, err := store.Show(ctx, id)
			if err != nil {
				return err
			}
			if len(list) == 0 {
				return failf(exitNothing, "nothing is stored of message %s", id)
			}
			return a.printMessages(list)
		})
	})
	return cmd
}

// messageJSON is a message as it is stored.
type messageJSON struct {
	ID            string            `json:"id"`
	Seq           int64             `json:"seq"`
	State         string            `json:"state"`
	InFlight      bool              `json:"in_flight,omitempty"`
	HoldsKey      bool              `json:"holds_key,omitempty"`
	Topic         string            `json:"topic"`
	Key           string            `json:"key,omitempty"`
	Attempts      int               `json:"attempts"`
	Generation    int               `json:"generation,omitempty"`
	Destination   string            `json:"destination,omitempty"`
	PublishedAt   time.Time         `json:"published_at"`
	AvailableAt   *time.Time        `json:"available_at,omitempty"`
	ExpiresAt     *time.Time        `json:"expires_at,omitempty"`
	EndedAt       *time.Time        `json:"ended_at,omitempty"`
	Class         string            `json:"class,omitempty"`
	Error         string            `json:"error,omitempty"`
	Actor         string            `json:"actor,omitempty"`
	Headers       map[string]string `json:"headers,omitempty"`
	Payload       json.RawMessage   `json:"payload,omitempty"` // payloadMark
	PayloadBase64 []byte            `json:"payload_base64,omitempty"`
	NoPayload     bool              `json:"no_payload,omitempty"`
}

// newMessages are messages as JSON, and the payloads that their marks stand for.
func newMessages(list []outbox.MessageInfo) (js []messageJSON, payloads [][]byte) {
	js = []messageJSON{}
	for i := range list {
		j, payload := newMessage(&list[i]), list[i].Message.Payload
		if isVerbatim(payload) {
			j.Payload, payloads = json.RawMessage(payloadMark), append(payloads, payload)
		} else {
			j.PayloadBase64 = payload
		}
		js = append(js, j)
	}
	return js, payloads
}

func newMessage(m *outbox.MessageInfo) messageJSON {
	return messageJSON{
		ID: m.Message.ID.String(), Seq: m.Seq, State: string(m.State), InFlight: m.InFlight, HoldsKey: m.Holds, Topic: m.Message.Topic, Key: m.Message.Key,
		Attempts: m.Attempts, Generation: m.Generation, Destination: m.Destination, PublishedAt: utc(m.PublishedAt),
		AvailableAt: timeOrNil(m.AvailableAt), ExpiresAt: timeOrNil(m.Message.ExpiresAt), EndedAt: timeOrNil(m.EndedAt),
		Class: m.Class, Error: m.Text, Actor: m.Actor, Headers: m.Message.Headers, NoPayload: m.NoPayload,
	}
}

func (a *app) printPage(page *outbox.ListPage, payload bool) error {
	if a.json {
		js, payloads := newMessages(page.Messages)
		err := a.printJSON(struct {
			Messages []messageJSON `json:"messages"`
			Next     string        `json:"next,omitempty"`
		}{js, page.Next}, payloads...)
		if err == nil && len(js) == 0 && page.Next == "" {
			return silently(exitNothing)
		}
		return err
	}
	if payload {
		if err := a.printMessages(page.Messages); err != nil {
			return err
		}
	} else if len(page.Messages) > 0 {
		if err := a.printTable(messageRows(page.Messages)); err != nil {
			return err
		}
	}
	switch {
	case page.Next != "":
		a.tell("this is not the end; go on with the same flags and: --after %s", page.Next)
	case len(page.Messages) == 0:
		return failf(exitNothing, "no message matches")
	}
	return nil
}

func messageRows(list []outbox.MessageInfo) [][]string {
	rows := [][]string{{"STATE", "ID", "TOPIC", "KEY", "DESTINATION", "ATTEMPTS", "PUBLISHED", "DUE OR ENDED", "ERROR"}}
	for _, m := range list {
		at := m.EndedAt
		if at.IsZero() {
			at = m.AvailableAt
		}
		rows = append(rows, []string{stateOf(&m), m.Message.ID.String(), m.Message.Topic, shorten(m.Message.Key, 40), m.Destination,
			strconv.Itoa(m.Attempts), when(m.PublishedAt), when(at), shorten(m.Text, 60)})
	}
	return rows
}

func stateOf(m *outbox.MessageInfo) string {
	if m.InFlight {
		return string(m.State) + ", in flight"
	}
	return string(m.State)
}

// printMessages writes messages in full, one after another.
func (a *app) printMessages(list []outbox.MessageInfo) error {
	if a.json {
		js, payloads := newMessages(list)
		return a.printJSON(map[string]any{"messages": js}, payloads...)
	}
	for i := range list {
		if i > 0 {
			a.printf("\n")
		}
		if err := a.printMessage(&list[i]); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) printMessage(m *outbox.MessageInfo) error {
	rows := [][]string{{"id", m.Message.ID.String()}, {"state", stateOf(m)}, {"topic", m.Message.Topic}}
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, []string{name, value})
		}
	}
	add("key", m.Message.Key)
	if m.Holds {
		add("holds key", "yes")
	}
	add("seq", strconv.FormatInt(m.Seq, 10))
	add("generation", strconv.Itoa(m.Generation))
	add("attempts", strconv.Itoa(m.Attempts))
	add("destination", m.Destination)
	add("published", when(m.PublishedAt))
	add("due", when(m.AvailableAt))
	add("expires", when(m.Message.ExpiresAt))
	add("ended", when(m.EndedAt))
	add("class", m.Class)
	add("error", m.Text)
	add("by", m.Actor)
	if len(m.Message.Headers) > 0 {
		headers, err := json.Marshal(m.Message.Headers)
		if err != nil {
			return err
		}
		add("headers", string(headers))
	}
	if m.NoPayload {
		add("payload", "(not kept)")
	} else {
		add("payload", payloadText(m.Message.Payload))
	}
	return a.printTable(rows)
}

// payloadText is a payload for people: as it is if it is text, else its length and the first bytes in hex.
func payloadText(payload []byte) string {
	const shown = 64
	if utf8.Valid(payload) {
		return string(payload)
	}
	if len(payload) > shown {
		return fmt.Sprintf("%d bytes: %x…", len(payload), payload[:shown])
	}
	return fmt.Sprintf("%d bytes: %x", len(payload), payload)
}
