package natssink

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
)

// TestClientTroubleIsLogged: the client's own report of an error would go to standard error, between the lines of a log.
func TestClientTroubleIsLogged(t *testing.T) {
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s, err := Open("nats://127.0.0.1:1", &Config{Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.conn.ErrorHandler()(s.conn, nil, errors.New("broken pipe"))
	if text := log.String(); !strings.Contains(text, "level=DEBUG") || !strings.Contains(text, "broken pipe") {
		t.Errorf("log: %s", text)
	}
}
