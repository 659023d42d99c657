package main

import (
	"strings"
	"testing"
)

// TestMissingAuthorityFile: it is not said that the URL is none.
func TestMissingAuthorityFile(t *testing.T) {
	c := newConfig()
	c.database.text = "postgres://u:hushmark@h/d?sslmode=verify-full&sslrootcert=/does/not/exist"
	_, err := c.poolConfig()
	if err == nil || !strings.Contains(err.Error(), "database.url") || !strings.Contains(err.Error(), "sslrootcert") ||
		!strings.Contains(err.Error(), "open /does/not/exist") || strings.Contains(err.Error(), "hushmark") {
		t.Errorf("%v", err)
	}
}
