package main

import (
	"strings"
	"testing"
)

// stuckStates are the states of the runbook, by the headings of their parts.
func stuckStates() map[string]func(*testing.T, *night) {
	return map[string]func(*testing.T, *night){
		"No relay is alive":                        noRelay,
		"A relay is suspended or has died":         relaySuspended,
		"A key waits for a retry":                  keyRetrying,
		"A key is parked":                          keyParked,
		"Dead letters pile up":                     deadLetters,
		"A topic or a destination is paused":       paused,
		"No relay delivers a topic":                topicUnhandled,
		"A destination is down":                    destinationDown,
		"A destination is misconfigured":           destinationMisconfigured,
		"A destination is gone":                    destinationGone,
		"More is published than delivered":         backlogGrows,
		"Relays have different settings":           settingsDiffer,
		"A transaction holds vacuum back":          vacuumHeld,
		"A prepared transaction holds vacuum back": vacuumHeldByPrepared,
		"A message kills its relays":               messageKills,
		"A handler does not return":                handlerStuck,
		"The archive refuses messages":             archiveRefuses,
		"The archive has no partitions ahead":      partitionsMissing,
		"The schema is missing":                    schemaMissing,
		"The schema is too new":                    schemaTooNew,
		"The schema is damaged":                    schemaDamaged,
		"A right is missing":                       rightMissing,
		"Notifications do not arrive":              notificationsOff,
		"A pooler is in between":                   poolerBetween,
		"The sequence is wrong":                    sequenceWrong,
		"Connections run out":                      connectionsRunOut,
		"The database is a restored copy":          restoredCopy,
		"The database is a standby":                standby,
		"No relay can stream":                      cannotStream,
		"A change was stopped":                     changeStopped,
	}
}

// arrives waits for a message of a topic in what a relay delivers.
func arrives(t *testing.T, out *lockedBuffer, topic string, n int) {
	t.Helper()
	eventually(t, "it is delivered: "+topic, func() bool { return strings.Count(out.String(), `"topic":"`+topic+`"`) >= n })
}
