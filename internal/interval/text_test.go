package interval

import (
	"math"
	"testing"
	"time"
)

func TestText(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                           "",
		-time.Second:                "",
		1:                           "0:00:00.000001",
		time.Second + 1:             "0:00:01.000001",
		36 * time.Minute:            "0:36:00.000000",
		100*time.Hour + time.Minute: "100:01:00.000000",
		math.MaxInt64:               "2562047:47:16.854776",
	} {
		if got := Text(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}
