package pgstore

import "time"

// duePass goes over the due rows of waiting, a window with each claim. Any number of them may not be for this
// lane, or not now, so claims must not look at all of them, and a pass that brought nothing rests.
type duePass struct {
	at      *time.Time // the last row looked at; nil: begin anew
	seq     int64
	rows    int
	began   time.Time
	fruits  bool
	resting time.Time // until then nothing is looked at
}

// dueWindow is a part of the pass.
type dueWindow struct {
	at   *time.Time
	seq  int64
	rows int // 0: none
}

// Bounds of a pass. The SQL has the last one as well.
const (
	dueRest      = 10 // times as long as the pass took
	dueRestMost  = time.Second
	dueRowsFirst = 500
	dueRowsMost  = 4000
)

func (d *duePass) next(now time.Time) dueWindow {
	if d.at != nil {
		return dueWindow{d.at, d.seq, d.rows}
	}
	if now.Before(d.resting) {
		return dueWindow{}
	}
	d.began, d.rows, d.fruits = now, dueRowsFirst, false
	return dueWindow{nil, 0, d.rows}
}

func (d *duePass) advance(w dueWindow, r *result, now time.Time) {
	if w.rows == 0 {
		return
	}
	d.at, d.fruits = r.dueAt, d.fruits || *r.claimed > 0
	if d.at != nil {
		d.seq = *r.dueSeq
		if *r.claimed == 0 {
			d.rows = min(2*d.rows, dueRowsMost)
		}
		return
	}
	if w.at != nil && !d.fruits {
		d.resting = now.Add(min(dueRest*now.Sub(d.began), dueRestMost))
	}
}
