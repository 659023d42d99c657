package devservices

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// Servers' ports lie below those that systems give to whoever asks for any, a client's connection among them (Linux from
// 32768, macOS from 49152 on): so nobody takes a server's port by chance while it restarts.
const (
	firstPort = 20_000
	ports     = 10_000
)

// FreePort returns a loopback TCP port that nothing listened on a moment ago. Another process may take it before the
// caller does, so a caller tries again with another port when its server finds it taken.
func FreePort() (port int, err error) {
	for range 100 {
		port = firstPort + rand.IntN(ports)
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("free port: %w", err)
}
