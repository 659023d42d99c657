package spell

import "testing"

func TestNearest(t *testing.T) {
	known := []string{"lease", "poll_interval", "drain_timeout", "to"}
	for name, want := range map[string]string{
		"leas": "lease", "laese": "lease", "lease": "lease", "poll_intervals": "poll_interval", "pol_intervall": "poll_interval",
		"drain": "", "xyz": "", "tp": "", "at": "", "": "",
	} {
		if got := Nearest(name, known); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "acb", 1}, {"abc", "abd", 1}, {"abc", "xabc", 1}, {"kitten", "sitting", 3}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("distance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
