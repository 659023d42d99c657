package pgdev

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// TestSeed starts servers in a temporary folder of its own: the first ones together without a seed, then one with it.
func TestSeed(t *testing.T) {
	if testing.Short() {
		t.Skip("starts several servers")
	}
	start(t, Config{})                                          // skips without PostgreSQL
	dir, err := os.MkdirTemp(os.TempDir(), "outbox-test-seed-") // t.TempDir is closed to the server's account
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", dir)

	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			s, err := Start(t.Context(), Config{})
			if err != nil {
				t.Error(err)
				return
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	seeds, err := filepath.Glob(filepath.Join(dir, "outbox-postgres-seed-*", "*.tar"))
	if err != nil || len(seeds) != 1 {
		t.Fatalf("seeds %q, %v; want one", seeds, err)
	}
	before, err := os.Stat(seeds[0])
	if err != nil {
		t.Fatal(err)
	}
	start(t, Config{})
	if after, err := os.Stat(seeds[0]); err != nil || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("the seed was not used but made anew: %v", err)
	}

	if err := os.WriteFile(seeds[0], []byte("not an archive"), 0o600); err != nil {
		t.Fatal(err)
	}
	connect(t, start(t, Config{}).URL("postgres"))
	if mended, err := os.Stat(seeds[0]); err != nil || mended.Size() != before.Size() {
		t.Errorf("a broken seed was not replaced: %v", err)
	}
}
