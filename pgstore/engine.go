package pgstore

// Engine is how a relay finds new messages. Both engines hand them to the same claim, so relays of both may work side by
// side, and each may change its engine whenever it starts; docs/wal.md tells which to choose.
type Engine string

const (
	// EnginePoll reads the table, when it is notified and at least every PollInterval.
	EnginePoll Engine = ""
	// EngineWAL streams new messages from logical replication. One relay streams at a time; others, and this one for as
	// long as it cannot, poll.
	EngineWAL Engine = "wal"
)

// String is the engine's name in configuration files and in the relay table.
func (e Engine) String() string {
	if e == EnginePoll {
		return "poll"
	}
	return string(e)
}
