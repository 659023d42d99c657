package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// TestPayloadsComeBack: whatever a payload is, what stdout: writes, and list and show, has it byte for byte, as JSON where that is possible, and
// publish --file makes the same message of it.
func TestPayloadsComeBack(t *testing.T) { inBoth(t, payloadsComeBack) }

func payloadsComeBack(t *testing.T, o *testOutbox) {
	cases := []struct {
		payload  string
		verbatim bool
	}{
		{`{"n":1}`, true}, {`{"b" : 1,  "a":[ 1,	2 ]}`, true}, {`{"html":"<b>&amp;</b>","line":"` + "\u2028" + `"}`, true}, {`"\u0070"`, true}, {`1.50`, true},
		{`null`, true}, {"{\n  \"n\": 1\n}", false}, {`{"n":1} `, false}, {" 1", false}, {"\t1\r", false}, {"", false}, {"no JSON", false},
		{"\"\xff\"", false}, {`{"n":1`, false}, {"[1,\r2]", true}, {strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000), false},
	}
	for i, c := range cases {
		file := write(t, filepath.Join(t.TempDir(), "payload"), c.payload)
		call(t, nil, "publish", "--topic=a", "--key=k", "--payload-file", file, fmt.Sprintf("--header=number=%d", i), o.flag).want(t, exitDone)
	}
	listed := decode[struct{ Messages []map[string]json.RawMessage }](t, call(t, nil, "list", "--payload", "--json", o.flag).want(t, exitDone))
	delivered := call(t, nil, "run", "--once", "--to=stdout:", o.flag).want(t, exitDone).out
	lines := strings.Split(strings.TrimSuffix(delivered, "\n"), "\n")
	if len(lines) != len(cases) || len(listed.Messages) != len(cases) {
		t.Fatalf("%d lines and %d listed, want %d", len(lines), len(listed.Messages), len(cases))
	}
	for i, c := range cases {
		m, err := parseLine([]byte(lines[i]))
		if err != nil || string(m.Payload) != c.payload || m.ContentType != "" || m.Headers["number"] != fmt.Sprint(i) {
			t.Errorf("%q comes back as %q with content type %q, error %v", c.payload, m.Payload, m.ContentType, err)
		}
		if strings.Contains(lines[i], `"payload":`) != c.verbatim {
			t.Errorf("%q is written as %s", c.payload, lines[i])
		}
		if shown, ok := listed.Messages[i]["payload"]; ok != c.verbatim || ok && string(shown) != c.payload {
			t.Errorf("%q is listed as %s", c.payload, shown)
		}
	}
	again := write(t, filepath.Join(t.TempDir(), "lines"), delivered)
	call(t, nil, "publish", "--file", again, o.flag).want(t, exitDone)
	second := call(t, nil, "run", "--once", "--to=stdout:", o.flag).want(t, exitDone).out
	for i, line := range strings.Split(strings.TrimSuffix(second, "\n"), "\n") {
		if m, err := parseLine([]byte(line)); err != nil || string(m.Payload) != cases[i].payload || m.ContentType != "" {
			t.Errorf("%q, published again, is %q with content type %q, error %v", cases[i].payload, m.Payload, m.ContentType, err)
		}
	}
}
