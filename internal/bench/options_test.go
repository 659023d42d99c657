package bench

import (
	"io"
	"strings"
	"testing"
	"time"
)

func TestOptions(t *testing.T) {
	scenarios := []Scenario{{Name: "drain"}, {Name: "publish"}, {Name: "relays"}}
	o, err := parseOptions(nil, scenarios, io.Discard)
	if err != nil || o.Rows != 200_000 || o.Reps != 5 || o.PublishFor != 3*time.Second || o.engine != "poll" || !o.chosen("drain") {
		t.Errorf("defaults %+v, %v", o, err)
	}
	o, err = parseOptions(strings.Fields("-short -rows 3000 -run drain,relays -set work_mem=8MB -set a=b=c"), scenarios, io.Discard)
	if err != nil || o.Rows != 3000 || o.Reps != 3 || !o.chosen("relays") || o.chosen("publish") ||
		o.settings["work_mem"] != "8MB" || o.settings["a"] != "b=c" {
		t.Errorf("options %+v, %v", o, err)
	}
	for _, bad := range []string{"-rows 10", "-reps -1", "-rate 0", "-run drian", "-set x", "drain", "-limit -1s", "-engine steam", "-idle-for -1s"} {
		if _, err := parseOptions(strings.Fields(bad), scenarios, io.Discard); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}
