// Package connecting tells in one line why PostgreSQL could not be connected to, and what to look at.
package connecting

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
)

// failure is a failed connection in words. The driver's has a line for each address of each host, with encryption and without.
type failure struct {
	text string
	err  error
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.err }

// Explain returns the error with the text of a failed connection in it made short. Any other error stays as it is.
func Explain(err error) error {
	var failed *pgconn.ConnectError
	var done *failure
	if errors.As(err, &done) || !errors.As(err, &failed) {
		return err
	}
	text := fmt.Sprintf("cannot connect to %s as user %s: ", database(failed.Config), failed.Config.User)
	var advice string
	for i, t := range tries(failed.Unwrap()) {
		if i > 0 {
			text += "; "
		}
		text += t.cause
		if len(t.addresses) > 0 {
			text += " (" + strings.Join(t.addresses, ", ") + ")"
		}
		if advice == "" {
			advice = t.advice
		}
	}
	if advice != "" {
		text += ": " + advice
	}
	return &failure{strings.Replace(err.Error(), failed.Error(), text, 1), err}
}

func database(c *pgconn.Config) string {
	name := c.Database
	if name == "" {
		name = c.User
	}
	return "database " + name + " at " + c.Host
}

// try is one way to fail, and where.
type try struct {
	cause, advice string
	addresses     []string
}

// tries takes the driver's error apart. What fails alike is one.
func tries(err error) (list []try) {
	var each []error
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		each = joined.Unwrap()
	} else {
		each = []error{err}
	}
	for _, e := range each {
		cause, advice := rootOf(e)
		i := slices.IndexFunc(list, func(t try) bool { return t.cause == cause })
		if i < 0 {
			i = len(list)
			list = append(list, try{cause: cause, advice: advice})
		}
		if address := addressOf(e); address != "" && !slices.Contains(list[i].addresses, address) {
			list[i].addresses = append(list[i].addresses, address)
		}
	}
	return list
}

// addressOf is where a connection was tried: the driver's errors begin with "address (host): ".
func addressOf(err error) string {
	address, _, ok := strings.Cut(err.Error(), " (")
	if !ok || strings.ContainsAny(address, " \n") {
		return ""
	}
	return address
}

// rootOf is what a try failed for, and what to look at.
func rootOf(err error) (cause, advice string) {
	var dns *net.DNSError
	var refused *pgconn.PgError
	var errno syscall.Errno
	switch {
	case errors.As(err, &refused):
		return refused.Error(), adviceFor(refused.Code)
	case errors.As(err, &dns):
		return dns.Error(), "is the host's name right?"
	case errors.As(err, &errno) && (errno == syscall.ECONNREFUSED || errno == syscall.ENOENT):
		return errno.Error(), "is the server running, and is this its address?"
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || pgconn.Timeout(err):
		return "no answer in time", "is this the server's address, and does nothing on the way keep it from answering?"
	}
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		cause = inner.Error()
	}
	return cause, ""
}

// adviceFor is about what the server answered.
func adviceFor(state string) string {
	switch {
	case state == "28P01" || state == "28000":
		return "are user and password right, and does pg_hba.conf admit them?"
	case state == "3D000":
		return "create the database, or correct its name"
	case state == "53300":
		return "close connections, or have more: max_connections, or the limit of the role or the database"
	case strings.HasPrefix(state, "57P"):
		return "the server starts or stops: try again"
	}
	return ""
}
