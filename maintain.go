package outbox

import (
	"context"
	"time"
)

const (
	maintainInterval = time.Minute
	maintainLimit    = 1000
	maintainPortions = 10 // a turn; what is left has to wait for the next one
)

// maintain lets the store do its housekeeping, a bounded amount each minute.
func (r *running) maintain(ctx context.Context) {
	for {
		sleep(ctx, jittered(maintainInterval))
		if ctx.Err() != nil {
			return
		}
		r.maintainOnce(ctx)
	}
}

func (r *running) maintainOnce(ctx context.Context) {
	for range maintainPortions {
		call, cancel := context.WithTimeout(ctx, maxCallTimeout)
		end := r.calls.begin("maintain")
		report, err := r.store.Maintain(call, MaintainQuery{Limit: maintainLimit})
		end()
		cancel()
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			r.storeFailed("maintain", err)
			return
		}
		r.storeWorks("maintain")
		if !report.More {
			return
		}
	}
}
