package model

// World is a configuration that is small enough to be explored whole, and what must happen in it.
type World struct {
	Config
	Happens []Kind
}

// Worlds are what is explored, by name. Each is small in its own way: what one leaves out another one has.
func Worlds() map[string]World {
	return map[string]World{
		"order": { // late commits, roll-backs and retries of one key, over two relays
			Config{Keys: []uint8{1, 1}, Limits: []int{1, 2}, Window: 2, Rollbacks: 1, Fails: 1},
			[]Kind{RollBack, Fail, Due, Sweep},
		},
		"three of a key": { // by one relay
			Config{Keys: []uint8{1, 1, 1}, Limits: []int{1, 2}, Window: 2, Fails: 1, Alone: true},
			[]Kind{Fail, Due, Sweep},
		},
		"prepared": { // what one lane knows, with prepared transactions
			Config{Keys: []uint8{1, 2, 1}, Limits: []int{2}, Window: 1, Looks: true, Prepare: true, Rollbacks: 1, Alone: true},
			[]Kind{RollBack, Prepare, Look, LookAtAll, Sweep},
		},
		"dedup": { // a publisher waits for another's dedup key
			Config{Keys: []uint8{2, 1, 2, 1}, Dedup: []int{0, 1}, Limits: []int{2}, Window: 1, Looks: true, Rollbacks: 1, Alone: true},
			[]Kind{TakeKey, RollBack, Look},
		},
		"kills": { // processes die
			Config{Keys: []uint8{1, 1}, Limits: []int{1, 2}, Window: 2, Kills: 1, Apart: true},
			[]Kind{Kill, Start, Lapse, SendBeat, Beat, Begin},
		},
		"pauses": { // processes stop and go on
			Config{Keys: []uint8{1, 1}, Limits: []int{1, 2}, Window: 2, Pauses: 1, Apart: true},
			[]Kind{Pause, Continue, Lapse, SendBeat, Beat, Rejoin, Begin},
		},
		"answers": { // answers are lost, messages are given back
			Config{Keys: []uint8{1, 1}, Limits: []int{1, 2}, Window: 2, Losses: 1, GiveBacks: 1, Apart: true},
			[]Kind{SendBeat, Beat, ClaimUnheard, Begin, GiveBack},
		},
		"deaths": { // dead messages that hold their key, and operators
			Config{Keys: []uint8{1, 1}, Park: true, Limits: []int{2}, Window: 2, Fails: 1, Deaths: 1, Redrives: 1, Discards: 1},
			[]Kind{Fail, FailForGood, Redrive, Discard},
		},
		"schedule": { // a message becomes due behind one that fails
			Config{Keys: []uint8{1, 1, 1}, Scheduled: []bool{false, true, false}, Limits: []int{2, 3}, Window: 3, Fails: 1, GiveBacks: 1, Alone: true},
			[]Kind{Due, Fail, GiveBack},
		},
		"crash": { // the database forgets its last asynchronous commits
			Config{Keys: []uint8{0, 0, 0}, Limits: []int{1}, Window: 2, Crashes: 1, Discards: 1, Alone: true},
			[]Kind{Crash, Discard},
		},
		"crash with keys": {
			Config{Keys: []uint8{2, 1, 1}, Limits: []int{2}, Window: 1, Crashes: 1, Looks: true, Async: true, Alone: true},
			[]Kind{Crash, Look},
		},
	}
}
