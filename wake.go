package outbox

import (
	"context"
	"time"
)

// wakeGap is the least time between two wake-ups, whatever the store does.
const wakeGap = time.Millisecond

// passWakeUps tells all lanes whenever the store says that there may be something to claim. One goroutine waits
// for all of them, and a lane remembers a wake-up until its next claim, so none is lost between a claim that
// found nothing and the rest after it (TestWakeUpBetweenClaimAndRest).
func (r *running) passWakeUps(ctx context.Context) {
	retry := storeBackoff()
	var seen uint64
	for ctx.Err() == nil {
		count, err := r.store.Wait(ctx, seen, time.Now().Add(forever))
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			r.storeFailed("wait", err)
			sleep(ctx, retry.next())
			continue
		case count > seen:
			seen = count
			r.pokeLanes()
		}
		retry.reset()
		r.storeWorks("wait")
		sleep(ctx, wakeGap)
	}
}

func (r *running) pokeLanes() {
	for _, l := range r.lanes {
		l.poke()
	}
}
