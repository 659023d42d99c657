package outbox

import "errors"

// SuspectLapses is how many relays must have died with a message before it is suspected of killing them. From
// then on it is claimed alone, one suspect at a time per relay, so that a relay that dies once more tells which
// message it was.
const SuspectLapses = 2

// Suspect reports whether the claim's message, the only one, is suspected of killing its relay.
func (c Claim) Suspect() bool { return c.Lapses >= SuspectLapses }

// Crashed reports whether a relay died that held the claim's message as a suspect: that was a failed attempt, of
// ClassCrash, and it is settled as one without being delivered.
func (c Claim) Crashed() bool { return c.Lapses > SuspectLapses }

// errCrashed is the error of an attempt that ended with its process.
var errCrashed = errors.New("the relay died while it delivered this message alone, after others had died with it")

// settleCrashed ends the claim of a crashed message.
func (l *lane) settleCrashed(c *heldClaim) {
	for i, d := range c.ds {
		o := failed(errCrashed, ClassCrash, l.r.policies.of(d.Topic), d).outcome(d)
		l.r.logAttempt(l, d, o)
		l.finish(c, i, o)
	}
}
