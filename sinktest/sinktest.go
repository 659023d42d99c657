package sinktest

import (
	"testing"
)

// TB is what a case needs of a test.
type TB = testing.TB

// Cases are all cases, in the order in which Run calls them.
func Cases() []Case {
	return []Case{
		{"acknowledged means stored", acknowledgedMeansStored},
		{"bytes survive", bytesSurvive},
		{"headers survive", headersSurvive},
		{"outbox headers tell the message", outboxHeaders},
		{"sent again is the same message", sentAgain},
		{"a redriven message is stored again", redriven},
		{"too large is permanent and alone", tooLarge},
		{"hostile headers are permanent and alone", hostileHeaders},
		{"line breaks in headers survive where they can", lineHeadersSurvive},
		{"a batch fails in part", partialFailure},
		{"deliveries are not changed", deliveriesUnchanged},
		{"an empty batch is no error", emptyBatch},
		{"a sink that pipelines keeps the order of a call", pipelinedOrder},
		{"many calls at a time", manyCalls},
		{"an ended context is obeyed", endedContext},
		{"away is unavailable", awayIsUnavailable},
		{"a deadline is obeyed while away", deadlineWhileAway},
		{"a restart under load loses nothing", restartUnderLoad},
		{"a key keeps its order over restarts", orderOverRestarts},
		{"silence is unavailable", silenceIsUnavailable},
		{"a cancelled call returns at once", cancelledInSilence},
	}
}

// Run runs every case as a subtest, each with a harness of its own.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) { c.Run(t, open(t)) })
	}
}
