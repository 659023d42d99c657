package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxrelay/outbox"
)

// Config says what to show.
type Config struct {
	Program  string                     // executable of this program, for the relays
	Env      []string                   // of the relays; settings of outbox in it are left out
	Database string                     // URL of an existing database, or PrivateSQLite; empty: a private one
	To       string                     // URL of an existing NATS server; empty: a private one
	Count    int                        // transactions to commit
	Message  func(i int) outbox.Message // the message of each, from 0; called from several goroutines
	Progress io.Writer
}

// Result is what happened.
type Result struct {
	Verdict
	KilledInFlight int64         // unsettled messages of the killed relay
	Relays         int           // that ran
	Dead           int64         // messages that the relays gave up
	Takeover       time.Duration // from the kill until another relay had them
	Took           time.Duration // all of it
	Private        bool          // private services, which are gone
	Database       string        // its kind
}

// demo is one run.
type demo struct {
	cfg      *Config
	progress *progress
	services *services
	ledger   *ledger
	app      *application
	relay    *relay // the running one
	result   Result

	killedPID int
	killedAt  time.Time
}

// Run shows everything and ends what it started, also when the context ends first.
func Run(ctx context.Context, cfg Config) (_ Result, err error) {
	began := time.Now()
	d := &demo{cfg: &cfg, progress: newProgress(cfg.Progress), ledger: newLedger()}
	defer d.progress.clear()
	d.result.Private = (cfg.Database == "" || cfg.Database == PrivateSQLite) && cfg.To == ""
	if d.services, err = openServices(ctx, &cfg); err != nil {
		return d.result, err
	}
	defer func() { err = errors.Join(err, d.services.close(ctx)) }()
	d.result.Database = d.services.database.kind()
	d.progress.say("%s and NATS are there; the outbox and the stream %s are made", d.result.Database, d.services.name)
	if err := d.play(ctx); err != nil {
		return d.result, err
	}
	d.progress.say("everything is delivered; reading the stream back")
	if err := d.judge(ctx); err != nil {
		return d.result, err
	}
	d.result.Took = time.Since(began)
	return d.result, nil
}

// play runs the application and the relays until nothing is left to deliver.
func (d *demo) play(ctx context.Context) (err error) {
	d.app = startApplication(ctx, d.services, d.ledger, d.cfg)
	defer d.app.end()
	defer func() {
		if d.relay != nil {
			d.relay.kill()
		}
	}()
	d.app.release(d.cfg.Count / 2)
	if err := d.until(ctx, d.appIdle); err != nil {
		return err
	}
	d.progress.say("the application has committed %d orders and goes on", d.ledger.count())
	d.app.release(d.cfg.Count / 4)
	if err := d.interrupt(ctx); err != nil {
		return err
	}
	d.app.release(d.cfg.Count)
	if err := d.until(ctx, d.drained); err != nil {
		return err
	}
	return d.relay.stop(ctx)
}

// interrupt kills a relay that has delivered messages and not settled them, and starts another. A relay would be too
// fast for that moment to be seen: it is kept from settling.
func (d *demo) interrupt(ctx context.Context) (err error) {
	release, err := d.services.database.holdSettling(ctx)
	if err != nil {
		return fmt.Errorf("hold the settling: %w", err)
	}
	defer func() { err = errors.Join(err, release(context.WithoutCancel(ctx))) }()
	if err := d.start(); err != nil {
		return err
	}
	if err := d.until(ctx, d.unsettled); err != nil {
		return err
	}
	if err := d.kill(ctx); err != nil {
		return err
	}
	d.progress.say("relay %d is killed (SIGKILL) while it holds %d messages", d.result.Relays, d.result.KilledInFlight)
	return d.start()
}

func (d *demo) start() (err error) {
	d.relay, err = startRelay(d.cfg, d.services, d.result.Relays+1)
	if err != nil {
		return err
	}
	d.result.Relays++
	if d.killedPID == 0 {
		d.progress.say("relay %d runs (process %d)", d.result.Relays, d.relay.pid())
	} else {
		d.progress.say("relay %d runs (process %d); what was held comes back when its lease of %v is over", d.result.Relays, d.relay.pid(), lease)
	}
	return nil
}

// kill ends the running relay and counts what it leaves behind.
func (d *demo) kill(ctx context.Context) (err error) {
	r := d.relay
	r.kill()
	d.killedPID, d.killedAt = r.pid(), time.Now()
	d.relay = nil
	if err := d.services.database.endSessions(ctx, r.name); err != nil {
		return fmt.Errorf("sessions of the killed relay: %w", err)
	}
	d.result.KilledInFlight, err = d.services.held(ctx, d.killedPID)
	return err
}

// unsettled: the relay has delivered messages, and holds them.
func (d *demo) unsettled(ctx context.Context) (bool, error) {
	held, err := d.services.held(ctx, d.relay.pid())
	if err != nil || held == 0 {
		return false, err
	}
	arrived, err := d.services.arrived(ctx)
	return arrived > 0, err
}

func (d *demo) appIdle(context.Context) (bool, error) { return d.app.idle(), nil }

// drained: everything is committed, and delivered or dead.
func (d *demo) drained(ctx context.Context) (bool, error) {
	if d.result.Takeover == 0 {
		held, err := d.services.held(ctx, d.killedPID)
		if err != nil {
			return false, err
		}
		if held == 0 {
			d.result.Takeover = time.Since(d.killedAt)
			d.progress.say("relay %d has them, %.1f s after the kill", d.result.Relays, d.result.Takeover.Seconds())
		}
	}
	depths, err := d.services.database.outbox().Depths(ctx)
	d.result.Dead = depths.Dead.Messages
	return d.app.idle() && depths.Empty(), err
}

const (
	pollInterval = 2 * time.Millisecond
	// stallLimit is how long nothing may happen.
	stallLimit = 60 * time.Second
)

// until polls a condition, while the relay runs and something happens.
func (d *demo) until(ctx context.Context, condition func(context.Context) (bool, error)) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	deadline, seen := time.Now().Add(stallLimit), ""
	for {
		if done, err := condition(ctx); done || err != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		if err := d.trouble(); err != nil {
			return err
		}
		arrived, err := d.services.arrived(ctx)
		if err != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		d.progress.show("committed %d of %d, delivered %d", d.ledger.count(), d.cfg.Count, arrived)
		if now := fmt.Sprint(arrived, d.ledger.count()); now != seen {
			deadline, seen = time.Now().Add(stallLimit), now
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("nothing has happened for %v; %s", stallLimit, d.relayLog())
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// trouble is why the demo cannot go on.
func (d *demo) trouble() error {
	if err := d.app.failed(); err != nil {
		return err
	}
	if d.relay != nil {
		return d.relay.failed()
	}
	return nil
}

func (d *demo) relayLog() string {
	if d.relay == nil {
		return "no relay runs"
	}
	return fmt.Sprintf("relay %d says:\n%s", d.relay.number, d.relay.log.String())
}

// readPatience bounds the wait for the next message of the stream.
const readPatience = 30 * time.Second

// judge reads the stream back from its beginning.
func (d *demo) judge(ctx context.Context) error {
	j := newJudge(d.ledger)
	info, err := d.services.stream.Info(ctx)
	if err != nil {
		return fmt.Errorf("read the stream: %w", err)
	}
	consumer, err := d.services.stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return fmt.Errorf("read the stream: %w", err)
	}
	messages, err := consumer.Messages()
	if err != nil {
		return fmt.Errorf("read the stream: %w", err)
	}
	defer messages.Stop()
	for left := info.State.Msgs; left > 0; {
		m, err := next(ctx, messages)
		if err != nil {
			return fmt.Errorf("read the stream: %w", err)
		}
		meta, err := m.Metadata()
		if err != nil {
			return fmt.Errorf("read the stream: %w", err)
		}
		j.arrive(newArrival(m, meta))
		left = meta.NumPending
	}
	d.result.Verdict = j.end()
	return nil
}

func next(ctx context.Context, messages jetstream.MessagesContext) (jetstream.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, readPatience)
	defer cancel()
	return messages.Next(jetstream.NextContext(ctx))
}

func newArrival(m jetstream.Msg, meta *jetstream.MsgMetadata) arrival {
	h := m.Headers()
	return arrival{seq: meta.Sequence.Stream, id: h.Get("Outbox-Id"), topic: h.Get("Outbox-Topic"), key: h.Get("Outbox-Key"), payload: m.Data()}
}
