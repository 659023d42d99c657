package outbox_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/outboxtest"
)

// TestLogs: a retry at warn, a dead message at error, a delivery at debug, each with what names the message and
// never with its payload.
func TestLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, sink, log := outboxtest.NewStore(), &outboxtest.Recorder{}, &bytes.Buffer{}
		sink.Plan(errors.New("first"), outbox.Permanent(errors.New("second")), nil)
		id := publish(t, store, message("orders.created", "k", "secret-payload"), message("orders.created", "k", "secret-payload"))[0].ID
		logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		r := start(t, store, outbox.To(sink), outbox.Config{Logger: logger})
		time.Sleep(10 * time.Second)
		r.mustStop()
		for _, want := range []string{
			`level=WARN msg="delivery failed, will be retried" id=` + id.String() + ` topic=orders.created destination=default attempt=1 class=error error=first retry_in=`,
			`level=ERROR msg="message is dead" id=` + id.String() + ` topic=orders.created destination=default attempt=2 class=permanent error=second`,
			`level=DEBUG msg="delivery ended"`,
			`msg="relay stopped" delivered=1 retried=1 dead=1`,
		} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("no line with %s", want)
			}
		}
		if strings.Contains(log.String(), "secret-payload") {
			t.Error("a payload was logged")
		}
		if t.Failed() {
			t.Log(log.String())
		}
	})
}

// TestNamedTestsExist: the tests that comments name as proofs are there.
func TestNamedTestsExist(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	var sources, tests strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "_test.go") {
			tests.Write(text)
		} else {
			sources.Write(text)
		}
	}
	names := regexp.MustCompile(`\b(Test|Benchmark|Fuzz)[A-Z]\w+`).FindAllString(sources.String(), -1)
	if len(names) < 10 {
		t.Errorf("comments name only %v", names)
	}
	for _, name := range names {
		if !strings.Contains(tests.String(), "func "+name+"(") {
			t.Errorf("a comment names %s, which does not exist", name)
		}
	}
}

// TestValuesReachHandlers: values of Run's context are in the handler's, its end is not.
func TestValuesReachHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		store := outboxtest.NewStore()
		publish(t, store, message("a", "", "1"))
		relay, err := outbox.NewRelay(store, sinkOf(func(handler context.Context, d *outbox.Delivery) error {
			cancel()
			time.Sleep(time.Second)
			if handler.Value(key{}) != "value" || handler.Err() != nil {
				t.Errorf("value %v, error %v", handler.Value(key{}), handler.Err())
			}
			return nil
		}), &outbox.Config{Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		if err := relay.Run(ctx); err != nil || store.Counts().Delivered != 1 {
			t.Errorf("%v, %+v", err, store.Counts())
		}
	})
}
