package e2e

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Variables of the environment. A seed repeats what a test chooses, not when its processes get to run.
const (
	seedVariable     = "OUTBOX_TEST_SEED"
	messagesVariable = "OUTBOX_TEST_CHAOS_MESSAGES"
)

// seedOf draws the seed of a test, or takes the one that the environment names, and logs it.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv(seedVariable); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s: %v", seedVariable, err)
		}
	}
	t.Logf("%s=%d", seedVariable, seed)
	return seed
}

// chaosMessages is how many messages each policy gets: few, unless the environment says more.
func chaosMessages(t *testing.T) int {
	t.Helper()
	text := os.Getenv(messagesVariable)
	if text == "" {
		return 3000
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1000 {
		t.Fatalf("%s=%q: at least 1000", messagesVariable, text)
	}
	return n
}
