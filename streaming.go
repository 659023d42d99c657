package outbox

import "time"

// Streamer is a Store that may learn of new messages from a stream of the database's log instead of looking for them.
type Streamer interface {
	// Streaming tells how the stream is doing, from memory. It is called every second, and by whoever asks for Health.
	Streaming() Streaming
}

// Streaming is how a store's stream of new messages is doing. The zero value: it has none and needs none.
type Streaming struct {
	// On: new messages come from the stream. Otherwise the relay polls.
	On bool
	// Lag is the time from a commit to its arrival, as heartbeats through the log measure it. Zero unless On.
	Lag time.Duration
	// Buffered are messages that have arrived and were not claimed yet.
	Buffered int
	// Problem says why the relay polls although it is to stream, or why it could not take over from the one that does. Empty: it
	// streams, or stands by while another one does and could, or was not asked to.
	Problem string
}

// streaming is nil for a store without streams.
func (r *running) streaming() *Streaming {
	st, can := r.store.(Streamer)
	if !can {
		return nil
	}
	s := st.Streaming()
	return &s
}

// tellStreaming tells the hook; that there is no stream when the relay is over.
func (r *running) tellStreaming() {
	hook, s := r.cfg.Hooks.Streaming, r.streaming()
	if hook == nil || s == nil {
		return
	}
	if r.isOver() {
		s = &Streaming{}
	}
	guard(r.log, "Streaming", func() { hook(r.base, *s) })
}
