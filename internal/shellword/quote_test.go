package shellword

import (
	"os/exec"
	"testing"
)

// TestQuote: a shell reads back what was quoted.
func TestQuote(t *testing.T) {
	for word, want := range map[string]string{
		"orders.created": "orders.created", "a:b/c@d%e+f=g,h-i_j": "a:b/c@d%e+f=g,h-i_j", "": "''", "billing.>": "'billing.>'",
		"it's": `'it'\''s'`, "$(reboot)": "'$(reboot)'", "a b\tc": "'a b\tc'", "-x;`y`": "'-x;`y`'", "ü\\": `'ü\'`, "''": `''\'''\'''`,
	} {
		got := Quote(word)
		if got != want {
			t.Errorf("%q: %s, want %s", word, got, want)
		}
		out, err := exec.Command("sh", "-c", "printf %s "+got).Output()
		if err != nil || string(out) != word {
			t.Errorf("%s is read back as %q: %v", got, out, err)
		}
	}
}
