package rabbitsink

import (
	"bytes"
	"errors"
	"net"
	"os"
	"testing"
	"time"
)

func pipe(t *testing.T, limit time.Duration) (*transport, net.Conn) {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	return &transport{Conn: ours, limit: limit}, theirs
}

// TestWriteEnds: a server that reads nothing is no reason to wait for ever.
func TestWriteEnds(t *testing.T) {
	tr, _ := pipe(t, 20*time.Millisecond)
	if _, err := tr.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

// scripted is a connection whose writes time out after so many bytes each.
type scripted struct {
	net.Conn
	steps []int
	got   []byte
}

func (c *scripted) SetWriteDeadline(time.Time) error { return nil }

func (c *scripted) Write(p []byte) (int, error) {
	n := c.steps[0]
	c.steps = c.steps[1:]
	c.got = append(c.got, p[:n]...)
	if n < len(p) {
		return n, os.ErrDeadlineExceeded
	}
	return n, nil
}

// TestWriteGoesOn: a slow reader does not end a write, nor one that has said that it reads nothing; one that reads
// nothing without a word does.
func TestWriteGoesOn(t *testing.T) {
	for name, c := range map[string]struct {
		patient bool
		steps   []int
		written int
	}{
		"slow":    {false, []int{1, 2, 1}, 4},
		"stuck":   {false, []int{1, 0}, 1},
		"patient": {true, []int{0, 0, 1, 0, 3}, 4},
	} {
		conn := &scripted{steps: c.steps}
		tr := &transport{Conn: conn}
		tr.patient.Store(c.patient)
		n, err := tr.Write([]byte("abcd"))
		if n != c.written || string(conn.got) != "abcd"[:n] || (err == nil) != (n == 4) {
			t.Errorf("%s: %d, %q, %v", name, n, conn.got, err)
		}
	}
}

// TestCloseEndsWrite: also one that would wait for the end of an alarm.
func TestCloseEndsWrite(t *testing.T) {
	tr, _ := pipe(t, 10*time.Millisecond)
	tr.patient.Store(true)
	written := make(chan error)
	go func() { _, err := tr.Write([]byte("x")); written <- err }()
	time.AfterFunc(30*time.Millisecond, func() { tr.Close() })
	if err := <-written; err == nil {
		t.Error("written")
	}
}

// TestWritesAreGathered between hold and release, up to a size.
func TestWritesAreGathered(t *testing.T) {
	tr, theirs := pipe(t, time.Minute)
	pieces := make(chan int, 10)
	var all bytes.Buffer
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		buf := make([]byte, 2*gathered)
		for {
			n, err := theirs.Read(buf)
			if err != nil {
				return
			}
			all.Write(buf[:n])
			pieces <- n
		}
	}()
	tr.hold()
	want := ""
	for _, text := range []string{"a", "b", "c"} {
		want += text
		if _, err := tr.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if len(pieces) > 0 {
		t.Error("sent before the release")
	}
	if err := tr.release(); err != nil || <-pieces != 3 {
		t.Errorf("not together, %v", err)
	}
	tr.hold()
	if _, err := tr.Write(make([]byte, gathered)); err != nil || <-pieces != gathered {
		t.Errorf("kept more than is gathered, %v", err)
	}
	if err := errors.Join(tr.release(), tr.release()); err != nil {
		t.Error(err)
	}
	tr.Close()
	<-ended
	if text := all.String(); text[:3] != want || all.Len() != 3+gathered {
		t.Errorf("%d bytes, %.10q", all.Len(), text)
	}
}
