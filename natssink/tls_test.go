package natssink

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/outboxrelay/outbox/internal/devservices/natsdev"
)

// TestTLS: a server is let in by its own authority only; with another one nothing is sent.
func TestTLS(t *testing.T) {
	t.Parallel()
	certificate, authority := selfSigned(t)
	_, wrong := selfSigned(t)
	server, err := natsdev.Start(natsdev.Config{TLS: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}()
	for name, c := range map[string]struct {
		file    string
		trusted bool
	}{"right": {authority, true}, "wrong": {wrong, false}} {
		t.Run(name, func(t *testing.T) {
			sink, err := Open(server.URL(), &Config{}, nats.RootCAs(c.file), nats.ReconnectWait(5*time.Millisecond))
			if err != nil {
				t.Fatal(err)
			}
			defer sink.Close()
			var unknown x509.UnknownAuthorityError
			settled := func() bool {
				if c.trusted {
					return sink.conn.IsConnected()
				}
				return errors.As(sink.conn.LastError(), &unknown)
			}
			for deadline := time.Now().Add(30 * time.Second); !settled(); time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("connected: %v, last error: %v", sink.conn.IsConnected(), sink.conn.LastError())
				}
			}
			if err := sink.Deliver(t.Context(), delivery("a", "1")); !c.trusted && !errors.Is(err, errNotConnected) {
				t.Errorf("delivered to an untrusted server: %v", err)
			}
		})
	}
}

// selfSigned returns a certificate of 127.0.0.1 and a file with its authority.
func selfSigned(t *testing.T) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file
}
