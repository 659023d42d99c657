package pgstore

import (
	"context"
	"fmt"
	"time"
)

const (
	// trialRest is the time between two tries of a relay that stands by whether it could stream, and trialAgain after one
	// that failed: somebody may be setting it right.
	trialRest  = time.Minute
	trialAgain = 5 * time.Second
)

// tryStandIn finds out whether this relay could stream in place of the one that does. Otherwise nothing would tell that it cannot
// before it has to.
func (st *stream) tryStandIn(ctx context.Context) {
	if time.Now().Before(st.trial) {
		return
	}
	unfit, rest := "", trialRest
	if err := st.couldStream(ctx); err != nil {
		unfit, rest = err.Error(), trialAgain
	}
	if ctx.Err() != nil {
		return
	}
	st.trial = time.Now().Add(rest)
	st.mu.Lock()
	told := st.unfit
	st.unfit = unfit
	st.mu.Unlock()
	switch {
	case told == unfit:
	case unfit == "":
		st.store.log.InfoContext(ctx, "this relay could stream now if the one that does were gone")
	default:
		st.store.log.WarnContext(ctx, "this relay could not stream if the one that does were gone", "error", unfit)
	}
}

// couldStream connects as a relay that streams does: that shows rights and poolers, and the server's settings are those that the
// other one streams with.
func (st *stream) couldStream(ctx context.Context) error {
	conn, err := st.store.connectToReplicate(ctx)
	if state, _ := sqlError(err); state == stateTooManyConnections {
		return nil // what the other one has is free when it is gone
	}
	if err != nil {
		return st.store.explainStream(fmt.Errorf("connect to replicate: %w", err))
	}
	(&streamConn{conn: conn}).close()
	return nil
}
