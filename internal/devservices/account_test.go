package devservices

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestServiceAccount(t *testing.T) {
	account, err := ServiceAccount("no-such-account", "nobody")
	if err != nil {
		t.Fatal(err)
	}
	if account.UID == 0 {
		t.Error("a server would run as root")
	}
	if os.Getuid() != 0 {
		return
	}
	if _, err := ServiceAccount("no-such-account"); err == nil {
		t.Error("root without another account: no error")
	}
	if account, err := ServiceAccount("root"); err == nil {
		t.Errorf("root as service account: %+v", account)
	}
}

func TestAccountOwns(t *testing.T) {
	own := Account{UID: uint32(os.Getuid())}
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name    string
		account Account
		path    string
		mode    os.FileMode
		want    bool
	}{
		{"private folder", own, dir, 0o700, true},
		{"writable by others", own, dir, 0o777, false},
		{"another's", Account{UID: own.UID + 1}, dir, 0o700, false},
		{"file", own, file, 0o700, false},
		{"link", own, link, 0o700, false},
		{"missing", own, filepath.Join(dir, "missing"), 0, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if c.mode != 0 {
				if err := os.Chmod(c.path, c.mode); err != nil {
					t.Fatal(err)
				}
			}
			if got := c.account.Owns(c.path); got != c.want {
				t.Errorf("Owns = %v, want %v", got, c.want)
			}
		})
	}
}

// TestFreePort: a server can listen there, and the system gives the port to nobody who asks for any.
func TestFreePort(t *testing.T) {
	port, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		t.Skip("the range of the system's own ports is not known here:", err)
	}
	var first, last int
	if _, err := fmt.Sscan(string(text), &first, &last); err != nil || first <= port && port <= last {
		t.Errorf("port %d is one of the system's own, %d to %d, %v", port, first, last, err)
	}
}
