package schedule

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/history"
)

// Outbox is what a schedule is played on.
type Outbox interface {
	// Open returns another Store, as another process would have, and what closes it.
	Open(ctx context.Context) (store outbox.Store, closeStore func(), err error)
	Begin(ctx context.Context) (Tx, error)
	// Left counts the committed messages that are neither dead nor ended.
	Left(ctx context.Context) (int, error)
	// Operator is who redrives, discards and pauses.
	Operator() outbox.Operator
}

// Tx is a transaction of an application.
type Tx interface {
	Publish(ctx context.Context, ms ...outbox.Message) ([]outbox.Receipt, error)
	Commit(ctx context.Context) error
	Rollback(ctx context.Context) error
}

// patience is how long it may take, after the last step, until everything is delivered. The longest that a sound
// relay takes is a lease and the rests of a breaker.
const patience = 2 * time.Minute

// eventsMost is how long the longest history gets, several times over. A store that hands out the same messages over
// and over goes beyond it.
const eventsMost = 20_000

// Play plays the plan and returns what the history checker finds. The error is that it could not be played: a
// transaction failed, a relay gave up, or something is never delivered.
func Play(ctx context.Context, box Outbox, plan Plan) (history.Report, error) {
	p := &player{box: box, plan: plan, memory: history.NewMemory(), fates: fates{messages: map[outbox.ID]Message{}}}
	p.operator = p.memory.Log("operator")
	for range plan.Relays {
		p.relays = append(p.relays, p.start(ctx))
	}
	for _, s := range plan.Steps {
		if p.failed() {
			break
		}
		time.Sleep(s.After)
		p.step(ctx, s)
	}
	p.transactions.Wait()
	p.resumeAll(ctx)
	p.drain(ctx)
	for _, proc := range p.relays {
		if proc != nil {
			proc.stop()
		}
	}
	p.running.Wait()
	return history.Check(p.memory.Events(), history.Options{Order: orderOf, Undrained: p.failed()}), p.err
}

// player plays one plan.
type player struct {
	box      Outbox
	plan     Plan
	memory   *history.Memory
	operator *history.Log
	pauses   []outbox.Pause
	fates    fates

	relays       []*process // those alive; nil: could not be started
	started      int
	running      sync.WaitGroup // relays, dead ones included
	transactions sync.WaitGroup

	mu  sync.Mutex
	err error
}

func (p *player) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = errors.Join(p.err, err)
}

func (p *player) failed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err != nil
}

// note writes into a history that cannot refuse it, unless this package is wrong.
func (p *player) note(log *history.Log, events ...history.Event) {
	if err := log.Append(events...); err != nil {
		p.fail(err)
	}
}

func (p *player) step(ctx context.Context, s Step) {
	switch s.Do {
	case Publish:
		p.publish(ctx, s)
	case Kill:
		if proc := p.relays[s.Relay]; proc != nil {
			p.kill(proc)
		}
		p.relays[s.Relay] = p.start(ctx)
	case Stop:
		if proc := p.relays[s.Relay]; proc != nil {
			proc.stop()
			<-proc.done
		}
		p.relays[s.Relay] = p.start(ctx)
	case Operate:
		p.operate(ctx, s.Operate)
	default:
		p.fail(fmt.Errorf("no action %q", s.Do))
	}
}

// drain waits until everything is delivered. Now and then an operator redrives what keeps keys held.
func (p *player) drain(ctx context.Context) {
	const pause = 20 * time.Millisecond
	deadline := time.Now().Add(patience)
	for looks := 1; !p.failed(); looks++ {
		time.Sleep(pause)
		if looks%20 == 0 {
			p.unpark(ctx)
		}
		left, err := p.box.Left(ctx)
		switch {
		case err != nil:
			p.fail(fmt.Errorf("count what is left: %w", err))
		case left == 0:
			return
		case p.memory.Len() > eventsMost:
			p.fail(fmt.Errorf("deliveries without end: %d events, %d messages are left", p.memory.Len(), left))
		case time.Now().After(deadline):
			p.fail(fmt.Errorf("%d messages are not delivered within %v", left, patience))
		}
	}
}
