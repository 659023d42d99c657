package model

// Rules are what can be left out of the protocol, to see that the guarantees need it. Zero: nothing is left out.
type Rules struct {
	NoFence        bool // settle does not ask whose claim it is
	NoToken        bool // settle tells claims apart by their ids, which a crash of the database draws again
	NoHeldKeys     bool // claim takes messages of keys that other claims hold
	NoHeadWaiting  bool // claim does not look for older messages in waiting
	NoHeadDead     bool // claim does not look for older messages that are dead and hold their key
	NoProbe        bool // claim does not look for older messages in message
	BaseTooEarly   bool // a lane's base passes transactions that are open
	BaseForever    bool // a lane's base outlives a crash of the database
	LateLock       bool // a publisher that waits for a dedup key has drawn its seq and has no lock yet
	PrepareForgets bool // a writer that was prepared counts as ended
	NoSweep        bool // nobody looks below the floor for what came late
	NoYoung        bool // a heartbeat gives back what was claimed after it had been sent
	NoBeat         bool // heartbeats give nothing back
	KeepFollowers  bool // a relay goes on with a key whose head has failed
	NoLeaseCheck   bool // a relay begins deliveries without asking whether its lease has ended
	ScheduledFree  bool // a scheduled message that was claimed and comes back does not hold its key
	DoubleListing  bool // claim takes what other claims list
}

// Config is what is explored.
type Config struct {
	Keys      []uint8 // of each message; 0: none
	Dedup     []int   // of each message: one more than the number of the message whose dedup key it has, too; 0: none
	Scheduled []bool  // of each message
	Park      bool    // a dead message holds its key
	Limits    []int   // of claims
	Window    int     // rows
	Prepare   bool    // publishers may prepare their transactions
	Looks     bool    // lanes learn what is left below their floors
	Alone     bool    // there is one relay
	Async     bool    // publishers commit asynchronously
	Apart     bool    // a delivery begins and ends in two steps

	Rollbacks, Fails, Deaths, Kills, Pauses, Losses, GiveBacks, Crashes, Redrives, Discards int // how often

	Rules
}

func (c *Config) scheduled(i int) bool { return i < len(c.Scheduled) && c.Scheduled[i] }

// dedupOf is the message whose dedup key a message has, too.
func (c *Config) dedupOf(i int) (other int, has bool) {
	if i >= len(c.Dedup) || c.Dedup[i] == 0 {
		return 0, false
	}
	return c.Dedup[i] - 1, true
}
