package devservices

import (
	"fmt"
	"net"
)

// FreePort returns a loopback TCP port that nothing listened on a moment ago. Another process may take it before the
// caller does, so a caller tries again with another port when its server finds it taken.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
