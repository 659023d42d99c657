package history

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
)

func openLog(t *testing.T, dir, process string) *Log {
	t.Helper()
	log, err := Open(dir, process)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	return log
}

func TestLogComesBackInOrderOfTime(t *testing.T) {
	dir := t.TempDir()
	a, b := openLog(t, dir, "a"), openLog(t, dir, "b")
	for _, step := range []struct {
		log  *Log
		kind Kind
	}{{a, Started}, {b, Started}, {a, RelayStarted}, {b, RelayStarted}, {a, RelayStopped}} {
		if err := step.log.Append(Event{Kind: step.kind, Relay: "r"}); err != nil {
			t.Fatal(err)
		}
	}
	// The harness writes about others.
	if err := a.Append(Event{Kind: Killed, Process: "b"}, Event{Kind: Died, Process: "b"}); err != nil {
		t.Fatal(err)
	}
	events, err := ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range events {
		got = append(got, e.Process+" "+string(e.Kind))
	}
	want := "a process_started, b process_started, a relay_started, b relay_started, a relay_stopped, b process_killed, b process_died"
	if strings.Join(got, ", ") != want {
		t.Fatalf("got %v", got)
	}
}

func TestLogKeepsEveryField(t *testing.T) {
	dir := t.TempDir()
	want := Event{At: 5, Kind: Settled, Process: "p", Relay: "r", Message: "m", Seq: 1, Topic: "t", Key: "k\n\x00é", Destination: "d",
		Payload: Hash([]byte("x")), Claim: 2, Outcome: OutcomeDied, Since: 3, Until: 4, Deferred: true, Detail: "why"}
	if err := openLog(t, dir, "p").Append(want); err != nil {
		t.Fatal(err)
	}
	events, err := ReadDir(dir)
	if err != nil || !reflect.DeepEqual(events, []Event{want}) {
		t.Fatalf("got %+v, %v", events, err)
	}
}

func TestLogIsWholeUnderManyWriters(t *testing.T) {
	dir := t.TempDir()
	log := openLog(t, dir, "p")
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 200 {
				if err := log.Append(Event{Kind: Committed, Message: "m"}, Event{Kind: RolledBack, Message: "n"}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	events, err := ReadDir(dir)
	if err != nil || len(events) != 3200 {
		t.Fatalf("%d events, %v", len(events), err)
	}
}

func TestLogRefuses(t *testing.T) {
	dir := t.TempDir()
	log := openLog(t, dir, "p")
	for want, e := range map[string]Event{
		`kind "x" is not known`: {Kind: "x"},
		"at (-1)":               {Kind: Started, At: -1},
		"committed lacks":       {Kind: Committed},
		"delivery_begun lacks":  {Kind: Begun, Message: "m", Relay: "r"},
		"leased lacks":          {Kind: Leased, Relay: "r"},
		"settled lacks":         {Kind: Settled, Message: "m", Relay: "r", Destination: "d"},
		"relay_stopped lacks":   {Kind: RelayStopped},
	} {
		if err := log.Append(e); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %s", e, err, want)
		}
	}
	if events, err := ReadDir(dir); err != nil || len(events) != 0 {
		t.Errorf("refused events were written: %v, %v", events, err)
	}
	for _, name := range []string{"", "a/b", `a\b`} {
		if _, err := Open(dir, name); err == nil {
			t.Errorf("process name %q was accepted", name)
		}
	}
}

func TestLogStaysFailed(t *testing.T) {
	log := openLog(t, t.TempDir(), "p")
	log.file.Close()
	e := Event{Kind: Started}
	if first, second := log.Append(e), log.Append(e); first == nil || second != first {
		t.Fatalf("%v, then %v", first, second)
	}
}

func TestReadLeavesOutATornEnd(t *testing.T) {
	whole := logOf(t, plant(t, once))
	for cut := range len(whole) {
		events, err := Read(bytes.NewReader(whole[:cut]))
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		if want := bytes.Count(whole[:cut], []byte("\n")); len(events) != want {
			t.Fatalf("cut at %d: %d events, want %d", cut, len(events), want)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	good := `{"at":1,"kind":"process_started","process":"p"}` + "\n"
	for want, bad := range map[string]string{
		"line 2: is empty":          good + "\n" + good,
		"line 2: invalid character": good + `{"at":1,"ki` + good,
		`line 1: event kind ""`:     "{}\n",
		"line 1: json":              `{"at":"x"}` + "\n",
	} {
		if _, err := Read(strings.NewReader(bad)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", bad, err, want)
		}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "p.jsonl"), []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadDir(dir); err == nil || !strings.Contains(err.Error(), "p.jsonl: read history: line 1") {
		t.Errorf("got %v", err)
	}
}

// logOf is what a process would have written.
func logOf(t testing.TB, events []Event) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, e := range events {
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(line, '\n'))
	}
	return b.Bytes()
}

func TestPlainLinesNeedNoJSON(t *testing.T) {
	lines := decoder{strings: map[string]string{}}
	for _, e := range plant(t, once+"\nh redrive m1 since=5\nA lease until=9\np publish m2 deferred=1") {
		if got, ok := lines.plain(logOf(t, []Event{e})); !ok || got != e {
			t.Errorf("%+v was read as %+v, %v", e, got, ok)
		}
	}
}

func TestReadTakesLongLines(t *testing.T) {
	e := Event{At: 1, Kind: Started, Process: "p", Detail: strings.Repeat("long ", 50_000)}
	if events, err := Read(bytes.NewReader(logOf(t, []Event{e, e}))); err != nil || len(events) != 2 || events[1] != e {
		t.Fatalf("%d events, %v", len(events), err)
	}
}

// The fast way must read what package json reads, or nothing.
func FuzzPlain(f *testing.F) {
	f.Add([]byte(`{"at":1,"kind":"publishing","process":"p","message":"m","seq":-3,"deferred":true}` + "\n"))
	f.Add([]byte(`{"at":1,"at":"2"}` + "\n"))
	f.Add([]byte(`{"at":01}` + "\n"))
	f.Fuzz(func(t *testing.T, line []byte) {
		got, ok := decoder{strings: map[string]string{}}.plain(line)
		if !ok {
			return
		}
		var want Event
		if err := json.Unmarshal(line, &want); err != nil || got != want {
			t.Fatalf("%q was read as %+v; json: %+v, %v", line, got, want, err)
		}
	})
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"at":1,"kind":"process_started","process":"p"}` + "\n" + `{"at":1,"ki`))
	f.Add([]byte(`{"at":2,"kind":"leased","process":"p","relay":"r","until":3}` + "\n"))
	f.Add([]byte("\n{}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		events, err := Read(bytes.NewReader(data))
		if err != nil {
			return
		}
		if lines := bytes.Count(data, []byte("\n")); len(events) != lines {
			t.Fatalf("%d events of %d lines", len(events), lines)
		}
		again, err := Read(bytes.NewReader(logOf(t, events)))
		if err != nil || len(events) > 0 && !reflect.DeepEqual(events, again) {
			t.Fatalf("written again: %v\n%+v\n%+v", err, events, again)
		}
		Check(events, Options{})
	})
}
