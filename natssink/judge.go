package natssink

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxrelay/outbox"
)

// Error codes of the server that the client does not name.
const (
	codeMessageTooLarge = 10054
	codeStreamMismatch  = 10060
	codeStreamSealed    = 10109
)

// answer is what a stream answers to a message.
type answer struct {
	Stream    string              `json:"stream"`
	Duplicate bool                `json:"duplicate"`
	Error     *jetstream.APIError `json:"error"`
}

var errNoStream = errors.New("no stream took the message")

// judge turns an answer into the message's result.
func (s *Sink) judge(m *nats.Msg) error {
	if isPlainAck(m.Data, s.cfg.Stream) {
		return nil
	}
	if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
		return outbox.Unavailable(fmt.Errorf("%w: nothing listens for its subject", errNoStream))
	}
	var a answer
	if err := json.Unmarshal(m.Data, &a); err != nil || a.Error == nil && a.Stream == "" {
		return outbox.Unavailable(fmt.Errorf("%w: something else answered", errNoStream))
	}
	switch {
	case a.Error != nil:
		return judgeError(a.Error)
	case s.cfg.Stream != "" && a.Stream != s.cfg.Stream:
		return outbox.Unavailable(fmt.Errorf("stream %s answered instead of %s", a.Stream, s.cfg.Stream))
	case a.Duplicate:
		s.duplicates.Add(1)
	}
	return nil
}

// blame makes a failure the message's own if no stream has its subject, as far as Preflight has seen them: else one
// topic that nobody thought of would close the destination for all others (TestRelayForeignSubject).
func (s *Sink) blame(d *outbox.Delivery, err error) error {
	theirs := s.streamSubjects.Load()
	subject, wrong := s.subject.of(d)
	if theirs == nil || wrong != nil || slices.ContainsFunc(*theirs, func(pattern string) bool { return covers(pattern, subject) }) {
		return err
	}
	return fmt.Errorf("the subject %s is not one of the stream's, which has %s: %v", subject, strings.Join(*theirs, ", "), err) // not %w: the destination works
}

// judgeError tells the refusal of a message from that of a stream which takes none now.
func judgeError(e *jetstream.APIError) error {
	err := fmt.Errorf("the stream refused the message: %s (%d)", e.Description, e.ErrorCode)
	switch {
	case e.ErrorCode == codeMessageTooLarge:
		return outbox.Permanent(fmt.Errorf("%w: %w", errTooLarge, err))
	case strings.Contains(e.Description, "per subject"): // only this subject is full
		return err
	case e.ErrorCode == codeStreamMismatch || e.ErrorCode == codeStreamSealed || e.Code >= http.StatusInternalServerError:
		return outbox.Unavailable(err)
	}
	return err
}

// judgePublish judges what the client says before anything was sent.
func (s *Sink) judgePublish(err error) error {
	switch {
	case !s.conn.IsConnected():
		return outbox.Unavailable(s.notConnected())
	case errors.Is(err, nats.ErrMaxPayload):
		return outbox.Permanent(fmt.Errorf("%w: %w", errTooLarge, err))
	case errors.Is(err, nats.ErrBadSubject) || errors.Is(err, nats.ErrBadHeaderMsg):
		return outbox.Permanent(err)
	}
	return outbox.Unavailable(fmt.Errorf("publish to NATS: %w", err))
}
