package outbox

import (
	"errors"
	"fmt"
	"time"
)

// Error classes of failed attempts, as they are stored and counted.
const (
	ClassError     = "error"
	ClassPermanent = "permanent"
	ClassTimeout   = "timeout"
	ClassPanic     = "panic"
	ClassDecode    = "decode"
	ClassExpired   = "expired"
	// ClassCrash: the relay died while it delivered this message alone, and others had died with it before.
	ClassCrash = "crash"
	// ClassUnavailable: the message waits because its destination was unavailable, without an attempt spent,
	// or it alone made it so several times, which spends one.
	ClassUnavailable = "unavailable"
)

// verdict is what an attempt's result means for its message. Kind zero: nothing may be settled, because the
// claim is lost.
type verdict struct {
	kind  OutcomeKind
	delay time.Duration
	holds bool // dead, its key stays held
	class string
	text  string
	says  probeResult
	spent bool // an attempt

	misconfigured bool // the destination: somebody has to change something
}

// judge turns a delivery's error, and why its context ended, into a verdict.
//
//	result                          outcome                      attempt spent
//	nil                             Delivered                    –
//	Drop                            Dropped                      –
//	Permanent                       Died (*)                     yes
//	Unavailable, Misconfigured      GivenBack, breaker           no
//	any, cancelled by ErrShutdown   GivenBack                    no
//	any, cancelled by ErrLeaseLost  none: the claim is lost      no
//	RetryAfter, any other           Retried, or Died (*) at last yes
//
// (*) as the order of its topic wants it: see policy.end.
//
// The breaker may know better whose fault it was: see charge.
func judge(err, cause error, p *policy, d *Delivery) verdict {
	if err == nil {
		return verdict{kind: Delivered, says: saysAvailable}
	}
	if reason, ok := DropReason(err); ok {
		return verdict{kind: Dropped, text: reason, says: saysAvailable}
	}
	switch {
	case IsPermanent(err):
		return spend(err, classOf(err, cause), p.end(d, 0))
	case IsUnavailable(err):
		return verdict{kind: GivenBack, text: err.Error(), says: saysUnavailable, misconfigured: IsMisconfigured(err)}
	case errors.Is(cause, ErrLeaseLost):
		return verdict{}
	case cause != nil && !errors.Is(cause, ErrHandlerTimeout):
		return verdict{kind: GivenBack}
	}
	return failed(err, classOf(err, cause), p, d)
}

// failed is the verdict on a failed attempt.
func failed(err error, class string, p *policy, d *Delivery) verdict {
	delay, asked := RetryDelay(err)
	if d.Attempt >= p.attempts(d) {
		return spend(err, class, p.end(d, delay))
	}
	if !asked {
		delay = p.retry.next(d.Attempt)
	}
	return spend(err, class, Outcome{Kind: Retried, Delay: delay})
}

// spend is the verdict on an attempt that was the message's.
func spend(err error, class string, o Outcome) verdict {
	v := verdict{kind: o.Kind, delay: o.Delay, holds: o.Holds, class: class, text: err.Error(), says: saysAvailable, spent: true}
	if class == ClassTimeout {
		v.says = saysLate
	}
	return v
}

// outcome settles the message by the verdict.
func (v verdict) outcome(d *Delivery) Outcome {
	o := Outcome{Kind: v.kind, Delay: v.delay, Class: v.class, Text: v.text, Holds: v.holds}
	if v.kind == Retried || v.kind == Died {
		o.Attempts = d.Attempt
		if !v.spent {
			o.Attempts--
		}
	}
	return o
}

// charge changes a verdict to the price that the breaker put on it.
func (v verdict) charge(c stateChange, err error, p *policy, d *Delivery) verdict {
	switch c.price {
	case exempt:
		return verdict{kind: GivenBack, text: v.text}
	case aside:
		return verdict{kind: Retried, delay: c.rest + asideGap, class: ClassUnavailable, text: v.text}
	case blamed:
		return failed(err, ClassUnavailable, p, d)
	}
	return v
}

func classOf(err, cause error) string {
	var panicked *panicError
	var undecodable *decodeError
	switch {
	case errors.As(err, &panicked):
		return ClassPanic
	case errors.As(err, &undecodable):
		return ClassDecode
	case IsPermanent(err):
		return ClassPermanent
	case errors.Is(cause, ErrHandlerTimeout) || errors.Is(err, ErrHandlerTimeout):
		return ClassTimeout
	}
	return ClassError
}

// panicError is a panic of a sink or handler.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string {
	return fmt.Sprintf("panic: %v\n%s", e.value, e.stack)
}

// errGoexit: a handler ended its goroutine instead of returning, as testing's FailNow does.
var errGoexit = errors.New("the handler called runtime.Goexit")
