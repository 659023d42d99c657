package connecting

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// failing is the error of a connection to a URL.
func failing(t *testing.T, url string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err == nil {
		conn.Close(ctx)
		t.Fatalf("%s: connected", url)
	}
	return err
}

// closedPort is one that nobody listens on.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// TestExplain: one line, each cause once, with all addresses, and what to look at.
func TestExplain(t *testing.T) {
	port := closedPort(t)
	for name, c := range map[string]struct {
		url  string
		want []string
	}{
		"refused, with and without TLS": {"postgres://me@127.0.0.1:" + port + "/shop",
			[]string{"cannot connect to database shop at 127.0.0.1 as user me: connection refused (127.0.0.1:" + port + "): is the server running"}},
		"several hosts": {"postgres://me@127.0.0.1:" + port + ",127.0.0.2:" + port + "/shop?sslmode=disable",
			[]string{"connection refused (127.0.0.1:" + port + ", 127.0.0.2:" + port + "): is the server running"}},
		"no socket": {"host=/nowhere/at/all user=me dbname=shop", []string{"no such file or directory", "is the server running"}},
	} {
		err := failing(t, c.url)
		got := Explain(fmt.Errorf("look: %w", err)).Error()
		for _, part := range append(c.want, "look: ") {
			if !strings.Contains(got, part) {
				t.Errorf("%s: no %q in %q", name, part, got)
			}
		}
		if strings.Contains(got, "\n") || strings.Count(got, "refused") > 1 {
			t.Errorf("%s: repeats itself: %q", name, got)
		}
		var failed *pgconn.ConnectError
		if again := Explain(Explain(err)); again.Error() != Explain(err).Error() || !errors.As(again, &failed) {
			t.Errorf("%s: explained twice: %v", name, again)
		}
	}
}

// TestExplainSilence: a server that takes the connection and says nothing.
func TestExplainSilence(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	got := Explain(failing(t, "postgres://me@"+l.Addr().String()+"/shop?connect_timeout=1&sslmode=disable")).Error()
	if !strings.Contains(got, "no answer in time ("+l.Addr().String()+")") {
		t.Error(got)
	}
}

// TestExplainAnswers: what the server says stays, with what to look at.
func TestExplainAnswers(t *testing.T) {
	for state, want := range map[string]string{"28P01": "are user and password right", "3D000": "create the database", "53300": "max_connections",
		"57P03": "try again", "XX000": "(SQLSTATE XX000)"} {
		if list := tries(&pgconn.PgError{Severity: "FATAL", Message: "no", Code: state}); !strings.Contains(list[0].cause+": "+list[0].advice, want) {
			t.Errorf("%s: %+v", state, list)
		}
	}
	other := errors.New("another fault")
	if got := Explain(other); got != other {
		t.Errorf("%v became %v", other, got)
	}
}
