package outbox

import (
	"context"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// causationHeader carries a message's chain of causes, with commas between the ids. Callers cannot set it in Go:
	// the chain comes from the context.
	causationHeader = "Outbox-Causation"
	// MaxCausationBytes is how long an id in a chain of causes may be.
	MaxCausationBytes = 128
	// MaxCausation is how many ids a chain has at most. A longer one keeps its first id and the latest others.
	MaxCausation = 32
)

type causationKey struct{}

// WithCausation begins a chain of causes, or adds to the one of ctx: messages that are published with the context that
// it returns carry the ids, the oldest first. A server gives the id of its request. An id is 1 to 128 bytes of UTF-8
// without control characters, spaces and commas; publishing refuses others with a *FieldError.
func WithCausation(ctx context.Context, ids ...string) context.Context {
	return context.WithValue(ctx, causationKey{}, slices.Concat(Causation(ctx), ids))
}

// CausedBy returns a context in which messages are published as caused by d, in place of any chain of ctx. The context
// of a handler is one already; a BatchSink's is not, since it has several messages.
func CausedBy(ctx context.Context, d *Delivery) context.Context {
	return context.WithValue(ctx, causationKey{}, d.chain())
}

// Causation returns the ids that a message published with ctx would carry, the oldest first: in a handler those of the
// message that it handles, and then that message's own. Nil: there is no chain.
func Causation(ctx context.Context) []string {
	ids, _ := ctx.Value(causationKey{}).([]string)
	return slices.Clone(ids)
}

// Causation returns the ids that caused the message, the oldest first; nil: it was published without a chain. What is
// no id, as a row may have it that was not published from Go, is left out.
func (d *Delivery) Causation() []string {
	var ids []string
	for _, id := range strings.Split(d.Headers[causationHeader], ",") {
		if id = strings.TrimSpace(id); isCausationID(id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// chain is what messages carry that d causes.
func (d *Delivery) chain() []string { return append(d.Causation(), d.ID.String()) }

func isCausationID(id string) bool {
	return id != "" && len(id) <= MaxCausationBytes && utf8.ValidString(id) && !strings.ContainsFunc(id, isNoCausationRune)
}

func isNoCausationRune(r rune) bool { return r == ',' || unicode.IsSpace(r) || unicode.IsControl(r) }

// causationOf is the header of messages that are published with ctx; empty: none.
func causationOf(ctx context.Context) (string, error) {
	ids, _ := ctx.Value(causationKey{}).([]string)
	for _, id := range ids {
		if !isCausationID(id) {
			return "", fieldError("WithCausation", strings.ToValidUTF8(id, "?"), "an id is 1 to 128 bytes of UTF-8 without control characters, spaces and commas")
		}
	}
	if len(ids) > MaxCausation {
		ids = slices.Concat(ids[:1], ids[len(ids)-MaxCausation+1:])
	}
	return strings.Join(ids, ","), nil
}
