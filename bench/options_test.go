package main

import (
	"io"
	"strings"
	"testing"
	"time"
)

func TestOptions(t *testing.T) {
	o, err := parseOptions(nil, io.Discard)
	if err != nil || o.rows != 200_000 || o.reps != 5 || o.publishFor != 3*time.Second || !o.chosen("drain") {
		t.Errorf("defaults %+v, %v", o, err)
	}
	o, err = parseOptions(strings.Fields("-short -rows 3000 -run drain,relays -set work_mem=8MB -set a=b=c"), io.Discard)
	if err != nil || o.rows != 3000 || o.reps != 3 || !o.chosen("relays") || o.chosen("publish") ||
		o.settings["work_mem"] != "8MB" || o.settings["a"] != "b=c" {
		t.Errorf("options %+v, %v", o, err)
	}
	for _, bad := range []string{"-rows 10", "-reps -1", "-rate 0", "-run drian", "-set x", "drain", "-limit -1s"} {
		if _, err := parseOptions(strings.Fields(bad), io.Discard); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}
