package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/outboxrelay/outbox"
)

// TestTopOnce: without a terminal there is one picture, plain, and with --json one document.
func TestTopOnce(t *testing.T) {
	t.Parallel()
	db := "--database-url=" + migrated(t)
	call(t, nil, "publish", "--topic=a", db).want(t, exitDone)
	plain := call(t, nil, "top", db).want(t, exitDone).out
	wantIn(t, plain, "outbox on ", "1 ready", "no live relay: nothing is delivered", "HOST")
	if strings.Contains(plain, "\x1b") {
		t.Errorf("%q steers a terminal that is not there", plain)
	}
	j := decode[topJSON](t, call(t, nil, "top", "--once", "--json", db).want(t, exitDone))
	if j.Ready.Messages != 1 || j.Rates == nil {
		t.Errorf("%+v", j)
	}
	wantIn(t, call(t, nil, "top", "--interval=0s", db).want(t, exitUsage).err, "--interval", "1s to 1h")
}

func TestRelayRates(t *testing.T) {
	now, id := time.Now(), outbox.NewID()
	relay := func(seen time.Duration, delivered, latency int64) []outbox.RelayStatus {
		return []outbox.RelayStatus{{ID: id, Seen: seen, Counters: map[string]int64{"delivered": delivered, "latency_microseconds": latency}}}
	}
	rates := relayRates{}
	if got := rates.next(now, relay(time.Second, 100, 1e6)); len(got) != 0 {
		t.Errorf("a rate from one heartbeat: %v", got)
	}
	if got := rates.next(now.Add(2*time.Second), relay(3*time.Second, 100, 1e6)); len(got) != 0 {
		t.Errorf("a rate from the same heartbeat: %v", got)
	}
	want := relayRate{perSecond: 50, latency: 2 * time.Millisecond}
	if got := rates.next(now.Add(10*time.Second), relay(time.Second, 600, 2e6)); got[id] != want {
		t.Errorf("%+v, want %+v", got[id], want)
	}
	if got := rates.next(now.Add(11*time.Second), relay(2*time.Second, 600, 2e6)); got[id] != want {
		t.Errorf("until the next heartbeat the rate stays, not %+v", got[id])
	}
	if got := rates.next(now.Add(20*time.Second), relay(time.Second, 600, 2e6)); got[id] != (relayRate{}) {
		t.Errorf("an idle relay: %+v", got[id])
	}
	if rates.next(now, nil); len(rates) != 0 {
		t.Error("a relay that is gone is remembered")
	}
}

// TestScreen: a picture is cut to the terminal, and what others wrote does not steer it.
func TestScreen(t *testing.T) {
	var b strings.Builder
	s := &screen{&b, func() (int, int) { return 5, 3 }}
	if err := s.show([]string{"wide line", "a\x1b[2Jb", "third"}); err != nil {
		t.Fatal(err)
	}
	if want := screenHome + "wide " + lineEnd + "a [2J" + lineEnd + restEnd; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

// terminal opens a pair of terminal and its other side.
func terminal(t *testing.T) (far, near *os.File) {
	t.Helper()
	far, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no terminals here:", err)
	}
	t.Cleanup(func() { far.Close() })
	var unlock, number int32
	for request, arg := range map[uintptr]*int32{syscall.TIOCSPTLCK: &unlock, syscall.TIOCGPTN: &number} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, far.Fd(), request, uintptr(unsafe.Pointer(arg))); errno != 0 {
			t.Fatal(errno)
		}
	}
	near, err = os.OpenFile("/dev/pts/"+strconv.Itoa(int(number)), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close() })
	return far, near
}

// TestTopRestoresTerminal: Ctrl-C, as a terminal sends it, ends it well and leaves the terminal as it was.
func TestTopRestoresTerminal(t *testing.T) {
	t.Parallel()
	far, near := terminal(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "top", "--interval=1s", "--database-url="+migrated(t))
	cmd.Env = append(os.Environ(), envProgram+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = near, near, near
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	near.Close()
	shown, ended := &lockedBuffer{}, make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(shown, far) // fails when the program has ended
	}()
	eventually(t, "there are pictures", func() bool { return strings.Count(shown.String(), screenHome) >= 2 })
	wantIn(t, shown.String(), screenBegin, "0 ready")
	if _, err := far.Write([]byte{3}); err != nil { // Ctrl-C
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("ended with %v", err)
	}
	<-ended
	if text := shown.String(); !strings.HasSuffix(text, screenEnd) {
		t.Errorf("the terminal is left with %q", text[max(0, len(text)-60):])
	}
}

// TestPictureOfFailure: a database that cannot be asked is told of, and is asked again.
func TestPictureOfFailure(t *testing.T) {
	p := &picture{err: errors.New("connection\nrefused"), every: 2 * time.Second}
	wantIn(t, strings.Join(p.lines(), "|"), "trying again every 2s", "connection refused")
}
