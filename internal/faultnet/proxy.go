package faultnet

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// Proxy forwards connections to a server.
type Proxy struct {
	listener net.Listener
	server   string
	wg       sync.WaitGroup

	mu     sync.Mutex
	refuse bool
	drip   time.Duration // between bytes
	delay  time.Duration // of each piece
	thaw   chan struct{} // closed while bytes are carried
	conns  map[net.Conn]struct{}
	closed bool
}

// Start listens on a free loopback port and forwards to the server's address.
func Start(server string) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: listener, server: server, thaw: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	close(p.thaw)
	p.wg.Go(p.accept)
	return p, nil
}

// Addr is where clients connect.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.serve(client) })
	}
}

func (p *Proxy) serve(client net.Conn) {
	if !p.add(client) {
		return
	}
	defer p.remove(client)
	server, err := net.Dial("tcp", p.server)
	if err != nil || !p.add(server) {
		return
	}
	defer p.remove(server)
	var both sync.WaitGroup
	both.Go(func() { p.carry(server, client) })
	both.Go(func() { p.carry(client, server) })
	both.Wait()
}

// carry copies until one side ends, then ends the other.
func (p *Proxy) carry(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		p.wait()
		<-p.flowing()
		if n > 0 {
			if err := p.write(to, buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// write carries bytes, a few at a time while they drip.
func (p *Proxy) write(to net.Conn, b []byte) error {
	const few = 64
	for len(b) > 0 {
		p.mu.Lock()
		drip, n := p.drip, len(b)
		p.mu.Unlock()
		if drip > 0 {
			n = min(n, few)
			time.Sleep(drip)
		}
		if _, err := to.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

func (p *Proxy) flowing() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.thaw
}

// wait lets a piece be late.
func (p *Proxy) wait() {
	p.mu.Lock()
	delay := p.delay
	p.mu.Unlock()
	if delay > 0 {
		time.Sleep(delay)
	}
}

// Delay carries what arrives, up to 32 KiB at a time, so much later, in both directions; zero carries it at once again.
func (p *Proxy) Delay(by time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = by
}

// Freeze stops carrying bytes, in both directions and on new connections too. Nobody is told.
func (p *Proxy) Freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.thaw:
		p.thaw = make(chan struct{})
	default:
	}
}

// Thaw carries what was held back, and everything after it.
func (p *Proxy) Thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.thaw:
	default:
		close(p.thaw)
	}
}

// Drip carries 64 bytes at a time with the pause before each, in both directions; zero carries at full speed again.
func (p *Proxy) Drip(pause time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drip = pause
}

// Refuse closes all connections, and new ones at once, as long as it is on.
func (p *Proxy) Refuse(on bool) {
	p.mu.Lock()
	p.refuse = on
	p.mu.Unlock()
	if on {
		p.Cut()
	}
}

// Cut closes all connections and returns how many there were, those of clients and those to the server together.
func (p *Proxy) Cut() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
	return len(p.conns)
}

// Close ends the proxy and waits for it.
func (p *Proxy) Close() error {
	err := p.listener.Close()
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.Cut()
	p.Thaw()
	p.wg.Wait()
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (p *Proxy) add(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.refuse {
		c.Close()
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

func (p *Proxy) remove(c net.Conn) {
	c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}
