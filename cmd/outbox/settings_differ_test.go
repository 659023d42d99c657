package main

import (
	"strings"
	"testing"
)

// TestArchiveSettingsDiffer: relays that differ in nothing but how they keep what has ended are told of by status and check, for each
// of the settings that say so; and those that do not differ are not.
func TestArchiveSettingsDiffer(t *testing.T) {
	t.Parallel()
	const mixed = "the relays of default have different rules"
	for name, c := range map[string]struct {
		other []string
		told  bool
	}{
		"the same":        {nil, false},
		"granularity":     {[]string{"--archive-granularity=7d"}, true},
		"payload":         {[]string{"--archive-payload=false"}, true},
		"keep_delivered":  {[]string{"--keep-delivered=60d"}, true},
		"nothing is kept": {[]string{"--keep-delivered=off"}, true},
		// What decides nothing about messages.
		"partition_interval": {[]string{"--partition-interval=10m"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := migrated(t)
			db := "--database-url=" + url
			both := []string{db, "--to=stdout:", "--keep-delivered=30d"}
			startDaemon(t, nil, both...)
			startDaemon(t, nil, append(both, c.other...)...)
			eventually(t, "both live", func() bool {
				return strings.Contains(call(t, nil, "status", db).out, "2 live")
			})
			if told := strings.Contains(call(t, nil, "status", db).want(t, exitDone).out, mixed); told != c.told {
				t.Errorf("status tells: %v", told)
			}
			code := exitDone
			if c.told {
				code = exitUnhealthy
			}
			r := call(t, nil, append([]string{"check"}, both...)...).want(t, code)
			if told := strings.Contains(r.out, mixed); told != c.told {
				t.Errorf("check tells: %v: %s", told, r.out)
			}
			j := decode[struct {
				OK       bool
				Findings []findingJSON
			}](t, call(t, nil, append([]string{"check", "--json"}, both...)...))
			if j.OK == c.told {
				t.Errorf("as JSON: %+v", j)
			}
		})
	}
}
