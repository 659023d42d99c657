package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
)

// Archive says how messages are kept that have ended; see Config.KeepDelivered.
type Archive struct {
	// Granularity is how much time a partition of the archive covers, by the calendar of UTC: 1 to 366 days, such as
	// "1d" or "7d", or 1 to 12 months, such as "1m". Default "1d". It may change at any time: partitions that are
	// there stay, and the next one begins where the last one ends.
	Granularity string
	// OmitPayload keeps messages without their payload. They cannot be replayed.
	OmitPayload bool
}

const (
	// DefaultGranularity and DefaultPartitionInterval are those of a Config that leaves them out.
	DefaultGranularity       = "1d"
	DefaultPartitionInterval = 5 * time.Minute

	minPartitionInterval = time.Minute
	maxPartitionInterval = 24 * time.Hour
	minKeep              = time.Minute
)

var granularity = regexp.MustCompile(`^([1-9][0-9]{0,2})([dm])$`)

func validGranularity(text string) bool {
	match := granularity.FindStringSubmatch(text)
	if match == nil {
		return false
	}
	n, _ := strconv.Atoi(match[1]) // three digits
	return match[2] == "d" && n <= 366 || match[2] == "m" && n <= 12
}

func (c *Config) checkArchive() error {
	var errs []error
	if c.KeepDelivered != 0 && c.KeepDelivered < minKeep {
		errs = append(errs, refuse("KeepDelivered", c.KeepDelivered.String(), fmt.Sprintf("%v or more, KeepForever, or zero to keep nothing", minKeep)))
	}
	if c.Archive.Granularity != "" && !validGranularity(c.Archive.Granularity) {
		errs = append(errs, refuse("Archive.Granularity", c.Archive.Granularity, "1d to 366d, or 1m to 12m for months"))
	}
	if c.PartitionInterval != 0 && (c.PartitionInterval < minPartitionInterval || c.PartitionInterval > maxPartitionInterval) {
		errs = append(errs, refuse("PartitionInterval", c.PartitionInterval.String(), fmt.Sprintf("%v to %v, or zero for the default", minPartitionInterval, maxPartitionInterval)))
	}
	return errors.Join(errs...)
}

// keep is what settling is told: nil for not at all, else whether the payload is kept too.
func (s *Store) keep() *bool {
	if s.cfg.KeepDelivered == 0 {
		return nil
	}
	full := !s.cfg.Archive.OmitPayload
	return &full
}

// settings adds to the digest of a relay's settings how its store keeps what has ended: relays that differ in it keep part of a
// destination's messages.
func (s *Store) settings(digest string) string {
	if digest == "" || s.cfg.KeepDelivered == 0 {
		return digest
	}
	return fmt.Sprintf("%s keep %v %s %v", digest, s.cfg.KeepDelivered, s.cfg.Archive.Granularity, !s.cfg.Archive.OmitPayload)
}

// upkeep is what a Store remembers about the archive.
type upkeep struct {
	mu      sync.Mutex
	looked  time.Time // for missing partitions, the last time without an error
	refusal string    // why the archive refused the last messages; empty: it took them

	notKept atomic.Int64
}

// NotKept counts the messages that have ended without being kept since the archive refused them. Settling does
// not wait for an archive that is broken or locked.
func (s *Store) NotKept() int64 { return s.upkeep.notKept.Load() }

// archived takes note of what the archive did with n messages; why is nil if it took them.
func (s *Store) archived(n int, why *string) {
	if n == 0 {
		return
	}
	s.upkeep.mu.Lock()
	before := s.upkeep.refusal != ""
	s.upkeep.refusal = ""
	if why != nil {
		s.upkeep.refusal = cmp.Or(*why, "unknown")
	}
	s.upkeep.mu.Unlock()
	switch {
	case why == nil && before:
		s.log.Info("the archive keeps messages again", "not_kept", s.NotKept())
	case why != nil:
		s.upkeep.notKept.Add(int64(n))
		if !before {
			s.log.Warn("the archive refuses messages, they end without being kept", "error", *why)
		}
	}
}

// archiveRefusal is what heartbeats tell of an archive that refuses messages; nil: it does not.
func (s *Store) archiveRefusal() *laneFault {
	const longest = 500 // bytes
	s.upkeep.mu.Lock()
	why := s.upkeep.refusal
	s.upkeep.mu.Unlock()
	if why == "" {
		return nil
	}
	if len(why) > longest {
		why = strings.ToValidUTF8(why[:longest-len("…")], "") + "…"
	}
	return &laneFault{Reason: why}
}

// prepareArchive makes the partitions of a starting relay. Delivering does not depend on it: what fails is told, and
// Maintain tries again.
func (s *Store) prepareArchive(ctx context.Context) {
	if err := s.lookAfterPartitions(ctx, time.Time{}); err != nil {
		s.log.Warn("the archive has no partitions ahead, the default one takes what ends", "error", err)
	}
}

// lookAfterPartitions makes the partitions that are missing ahead, and writes down what is kept.
func (s *Store) lookAfterPartitions(ctx context.Context, now time.Time) error {
	mode := "off"
	if full := s.keep(); full != nil {
		mode = map[bool]string{true: "full", false: "bare"}[*full]
	}
	if err := s.onArchive(ctx, call{s.sql.setArchive, []any{mode}, nil}); err != nil {
		return err
	}
	for made := "-"; made != "" && mode != "off"; {
		var name *string
		read := func(rows pgx.Rows) error { return rows.Scan(&name) }
		if err := s.onArchive(ctx, call{s.sql.addPartition, []any{timeOrNull(now), s.cfg.Archive.Granularity}, read}); err != nil {
			return fmt.Errorf("make a partition of the archive: %w", err)
		}
		if made = ""; name != nil {
			made = *name
			s.log.Info("made a partition of the archive", "partition", made)
		}
	}
	s.upkeep.mu.Lock()
	s.upkeep.looked = time.Now()
	s.upkeep.mu.Unlock()
	return nil
}

func (s *Store) partitionsDue() bool {
	s.upkeep.mu.Lock()
	defer s.upkeep.mu.Unlock()
	return time.Since(s.upkeep.looked) >= s.cfg.PartitionInterval
}

// maintainArchive makes missing partitions and removes what has been kept long enough: whole partitions, and then up to
// q.Limit messages of the one that the end falls into. One of them failing does not keep the others.
func (s *Store) maintainArchive(ctx context.Context, q outbox.MaintainQuery) (expired int64, more bool, err error) {
	if s.cfg.KeepDelivered == 0 {
		return 0, false, nil
	}
	var errs []error
	if !q.Now.IsZero() || s.partitionsDue() {
		errs = append(errs, s.lookAfterPartitions(ctx, q.Now))
	}
	if s.cfg.KeepDelivered == outbox.KeepForever {
		return 0, false, errors.Join(errs...)
	}
	dropped, err := s.dropPartitions(ctx, q.Now)
	deleted := 0
	read := func(rows pgx.Rows) error { return rows.Scan(&deleted) }
	errs = append(errs, err,
		s.onArchive(ctx, call{s.sql.expireArchive, []any{timeOrNull(q.Now), s.cfg.KeepDelivered, q.Limit}, read}))
	return dropped + int64(deleted), deleted == q.Limit, errors.Join(errs...)
}

// dropPartitions drops the partitions that have been kept long enough.
func (s *Store) dropPartitions(ctx context.Context, now time.Time) (messages int64, err error) {
	for {
		var name *string
		var n int64
		read := func(rows pgx.Rows) error { return rows.Scan(&name, &n) }
		if err := s.onArchive(ctx, call{s.sql.dropPartition, []any{timeOrNull(now), s.cfg.KeepDelivered}, read}); err != nil {
			return messages, fmt.Errorf("drop a partition of the archive: %w", err)
		}
		if name == nil {
			return messages, nil
		}
		messages += n
		s.log.Info("dropped a partition of the archive, it has been kept long enough", "partition", *name, "messages", n)
	}
}

// onArchive runs a call in a transaction of its own. One that did not get its lock in time, because somebody reads the
// archive, is repeated a few times; the pauses let those pass who wait behind it.
func (s *Store) onArchive(ctx context.Context, c call) error {
	const tries, rest = 3, 300 * time.Millisecond
	for try := 1; ; try++ {
		err := errors.Join(s.run(ctx, s.transaction(c))...)
		if state, _ := sqlError(err); state != lockNotAvailable || try == tries {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(rest):
		}
	}
}

func timeOrNull(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t
}
