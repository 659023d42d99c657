package planted

import "testing"

func TestFailures(t *testing.T) {
	for name, c := range map[string]struct {
		check func(t testing.TB)
		want  string
	}{
		"passes":       {func(t testing.TB) { t.Helper(); t.Logf("fine") }, ""},
		"errors go on": {func(t testing.TB) { t.Errorf("one %d", 1); t.Error("two") }, "one 1\ntwo"},
		"fatal ends":   {func(t testing.TB) { t.Fatalf("end %d", 1); t.Error("never") }, "end 1"},
		"fail now":     {func(t testing.TB) { t.FailNow(); t.Error("never") }, "failed"},
		"skip":         {func(t testing.TB) { t.Skip("not here"); t.Error("never") }, ""},
		"skip with f":  {func(t testing.TB) { t.Skipf("not %d", 1); t.Error("never") }, ""},
		"skip now":     {func(t testing.TB) { t.SkipNow(); t.Error("never") }, ""},
		"panic":        {func(testing.TB) { panic("boom") }, "boom"},
		"knows": {func(t testing.TB) {
			t.Fail()
			if !t.Failed() {
				t.Error("does not know")
			}
		}, "failed"},
	} {
		if got := Failures(t, c.check); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if t.Skipped() {
		t.Error("a skipped check has skipped its test")
	}
}
