package natssink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/shellword"
)

// Preflight reports, as outbox.Misconfigured, a stream that cannot take the messages: missing (unless Config.Create makes it),
// sealed, a mirror, without acknowledgements, or with subjects that none of the messages has; one that is full is
// unavailable. What may be intended, such as a short
// duplicate window, is logged once as a warning.
func (s *Sink) Preflight(ctx context.Context) error {
	if !s.conn.IsConnected() {
		return s.notConnected()
	}
	infos, err := s.streams(ctx)
	if err != nil {
		return err
	}
	var maxMsgSize int64
	var subjects []string
	for _, info := range infos {
		if err := s.checkStream(info); err != nil {
			return err
		}
		if len(infos) == 1 {
			maxMsgSize = int64(info.Config.MaxMsgSize)
		}
		subjects = append(subjects, info.Config.Subjects...)
	}
	s.streamSubjects.Store(&subjects)
	s.maxMsgSize.Store(maxMsgSize)
	return nil
}

// streams returns the named stream, or those that have the subjects of the topics.
func (s *Sink) streams(ctx context.Context) ([]*jetstream.StreamInfo, error) {
	if s.cfg.Stream != "" {
		info, err := s.stream(ctx, s.cfg.Stream)
		if err != nil {
			return nil, err
		}
		return []*jetstream.StreamInfo{info}, nil
	}
	var names []string
	for _, subject := range s.subjects() {
		found := s.js.StreamNames(ctx, jetstream.WithStreamListSubject(subject))
		for name := range found.Name() {
			names = append(names, name)
		}
		if err := found.Err(); err != nil {
			return nil, explain(err)
		}
	}
	if len(names) == 0 {
		return nil, repairable(s.addLine(), "no stream has the subjects %s; create one", strings.Join(s.subjects(), ", "))
	}
	slices.Sort(names)
	var infos []*jetstream.StreamInfo
	for _, name := range slices.Compact(names) {
		info, err := s.stream(ctx, name)
		if err != nil {
			return nil, err
		}
		infos = append(infos, info)
	}
	return infos, nil
}

// stream returns a stream, which is created if it is missing and that is wanted.
func (s *Sink) stream(ctx context.Context, name string) (*jetstream.StreamInfo, error) {
	stream, err := s.js.Stream(ctx, name)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound) && s.cfg.Create:
		stream, err = s.js.CreateStream(ctx, s.newStream())
		if err != nil {
			return nil, fmt.Errorf("create stream %s: %w", name, explain(err))
		}
		s.cfg.Logger.Info("stream created", "stream", name)
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return nil, repairable(s.addLine(), "stream %s does not exist; create it", name)
	case err != nil:
		return nil, explain(err)
	}
	return stream.CachedInfo(), nil
}

// newStream is the stream as Create makes it.
func (s *Sink) newStream() jetstream.StreamConfig {
	subjects := s.cfg.Subjects
	if len(subjects) == 0 {
		subjects = s.subjects()
	}
	return jetstream.StreamConfig{
		Name: s.cfg.Stream, Subjects: subjects, Replicas: s.cfg.Replicas, Storage: s.cfg.Storage,
		Duplicates: s.cfg.DuplicateWindow, Description: "messages of a transactional outbox",
	}
}

// addLine is the command that creates the stream.
func (s *Sink) addLine() string {
	c := s.newStream()
	if c.Name == "" {
		c.Name = "OUTBOX"
	}
	if slices.Contains(c.Subjects, ">") { // which no stream may have
		c.Subjects = []string{"YOUR.SUBJECTS.>"}
	}
	storage := "file"
	if c.Storage == jetstream.MemoryStorage {
		storage = "memory"
	}
	return fmt.Sprintf("nats stream add %s --subjects %s --storage %s --replicas %d --dupe-window %v --ack --defaults",
		shellword.Quote(c.Name), shellword.Quote(strings.Join(c.Subjects, ",")), storage, c.Replicas, c.Duplicates)
}

// repairError is what is misconfigured, with the command that sets it right.
type repairError struct{ what, command string }

// Error is both, for logs and for what relays tell.
func (e *repairError) Error() string { return e.what + ": " + e.command }

// Repair is the command, for those who tell it apart.
func (e *repairError) Repair() string { return e.command }

func repairable(command, format string, args ...any) error {
	return outbox.Misconfigured(&repairError{fmt.Sprintf(format, args...), command})
}

func (s *Sink) subjects() []string { return s.cfg.subjects(s.subject) }

// explain gives the client's errors the words of an operator.
func explain(err error) error {
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount), errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("JetStream does not answer, it is not enabled or has no leader: %w", err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("JetStream does not answer in time: %w", err)
	}
	return fmt.Errorf("ask JetStream: %w", err)
}

// checkStream returns what makes a stream useless here.
func (s *Sink) checkStream(info *jetstream.StreamInfo) error {
	c := info.Config
	switch {
	case c.Mirror != nil:
		return outbox.Misconfigured(fmt.Errorf("stream %s is a mirror of %s and takes no messages", c.Name, c.Mirror.Name))
	case c.Sealed:
		return outbox.Misconfigured(fmt.Errorf("stream %s is sealed and takes no messages", c.Name))
	case c.NoAck:
		return repairable("nats stream edit "+shellword.Quote(c.Name)+" --ack --force", "stream %s does not acknowledge; set it", c.Name)
	case isFull(info):
		return fmt.Errorf("stream %s is full and discards new messages", c.Name)
	}
	if err := s.checkSubjects(c); err != nil {
		return err
	}
	s.adviseWindow(c)
	s.adviseLimits(c)
	return nil
}

// isFull: the stream refuses the next message because of those that it has.
func isFull(info *jetstream.StreamInfo) bool {
	c := info.Config
	return c.Discard == jetstream.DiscardNew &&
		(c.MaxMsgs > 0 && info.State.Msgs >= uint64(c.MaxMsgs) || c.MaxBytes > 0 && info.State.Bytes >= uint64(c.MaxBytes))
}

// checkSubjects compares as far as patterns can be compared: what overlaps is possible, what is covered is certain.
func (s *Sink) checkSubjects(c jetstream.StreamConfig) error {
	var outside []string
	possible := false
	for _, ours := range s.subjects() {
		possible = possible || slices.ContainsFunc(c.Subjects, func(theirs string) bool { return overlaps(theirs, ours) })
		if !slices.ContainsFunc(c.Subjects, func(theirs string) bool { return covers(theirs, ours) }) {
			outside = append(outside, ours)
		}
	}
	theirs := strings.Join(c.Subjects, ", ")
	if !possible {
		return outbox.Misconfigured(fmt.Errorf("stream %s has the subjects %s, the messages have %s", c.Name, theirs, strings.Join(s.subjects(), ", ")))
	}
	// That a stream does not have every subject there is says nothing.
	outside = slices.DeleteFunc(outside, func(subject string) bool { return subject == ">" })
	if len(outside) > 0 && s.cfg.Stream != "" {
		s.advise(slog.LevelWarn, "stream may not have the subjects of all messages", "stream", c.Name,
			"stream_subjects", theirs, "message_subjects", strings.Join(outside, ", "))
	}
	return nil
}

func (s *Sink) adviseWindow(c jetstream.StreamConfig) {
	if c.Duplicates < s.cfg.RetryHorizon {
		s.advise(slog.LevelWarn, "stream forgets message ids before the last retry, which may then be stored twice",
			"stream", c.Name, "duplicate_window", c.Duplicates, "retry_horizon", s.cfg.RetryHorizon)
	}
}

func (s *Sink) adviseLimits(c jetstream.StreamConfig) {
	limited := c.MaxMsgs > 0 || c.MaxBytes > 0 || c.MaxAge > 0
	if limited && c.Discard == jetstream.DiscardOld && c.Retention != jetstream.LimitsPolicy {
		s.advise(slog.LevelWarn, "stream discards old messages at its limits, consumed or not", "stream", c.Name,
			"max_messages", c.MaxMsgs, "max_bytes", c.MaxBytes, "max_age", c.MaxAge)
	}
	if (c.MaxMsgs > 0 || c.MaxBytes > 0) && c.Discard == jetstream.DiscardNew {
		s.advise(slog.LevelInfo, "stream refuses messages at its limits, which makes it unavailable", "stream", c.Name,
			"max_messages", c.MaxMsgs, "max_bytes", c.MaxBytes)
	}
}

// advice remembers what was logged.
type advice struct {
	mu    sync.Mutex
	given map[string]bool
}

// advise logs each advice once, until it changes.
func (s *Sink) advise(level slog.Level, msg string, attrs ...any) {
	text := msg + fmt.Sprint(attrs...)
	s.advice.mu.Lock()
	known := s.advice.given[text]
	if s.advice.given == nil {
		s.advice.given = map[string]bool{}
	}
	s.advice.given[text] = true
	s.advice.mu.Unlock()
	if !known {
		s.cfg.Logger.Log(context.Background(), level, msg, attrs...)
	}
}
