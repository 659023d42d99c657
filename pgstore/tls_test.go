package pgstore

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/devservices/pgdev"
	"github.com/outboxrelay/outbox/internal/devservices/pgtest"
)

// authority signs certificates.
type authority struct {
	key         *ecdsa.PrivateKey
	certificate *x509.Certificate
	file        string
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{key: newKey(t), file: filepath.Join(t.TempDir(), "ca.pem")}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.certificate, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(a.file, block("CERTIFICATE", der), 0o600); err != nil {
		t.Fatal(err)
	}
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// sign makes a certificate for 127.0.0.1 that ends at a time.
func (a *authority) sign(t *testing.T, end time.Time) (certificate, key []byte) {
	t.Helper()
	own := newKey(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "server"}, NotBefore: time.Now().Add(-2 * time.Hour),
		NotAfter: end, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &own.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		t.Fatal(err)
	}
	return block("CERTIFICATE", der), block("PRIVATE KEY", text)
}

// serve gives a server a certificate. The server writes the files itself: a key must be its user's alone.
func serve(t *testing.T, server *pgdev.Server, certificate, key []byte) {
	t.Helper()
	conn := connect(t, server.URL("postgres"))
	for file, text := range map[string][]byte{"server.crt": certificate, "server.key": key} {
		exec(t, conn, fmt.Sprintf(`copy (select unnest(string_to_array('%s', e'\n'))) to program 'umask 077; cat > %s'`, strings.TrimSpace(string(text)), file))
	}
	exec(t, conn, "alter system set ssl = on")
	before := value[time.Time](t, conn, "select pg_conf_load_time()")
	exec(t, conn, "select pg_reload_conf()")
	waitUntil(t, "the server has read its certificate", func() bool {
		return value[bool](t, connect(t, server.URL("postgres")), "select pg_conf_load_time() > $1 and current_setting('ssl')::boolean", before)
	})
}

// TestTLS: a server is let in by its own authority and name only, whatever connects; the error says what to set, and shows
// no password.
func TestTLS(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, pgdev.Config{})
	name, err := server.Cluster().CreateFrom(t.Context(), "migrated", migrateDatabase)
	if err != nil {
		t.Fatal(err)
	}
	right, wrong := newAuthority(t, "right"), newAuthority(t, "wrong")
	certificate, key := right.sign(t, time.Now().Add(time.Hour))
	serve(t, server, certificate, key)
	url := func(host, mode, authority string) string {
		return fmt.Sprintf("postgres://postgres:hushmark@%s:%d/%s?sslmode=%s&sslrootcert=%s", host, server.Port(), name, mode, authority)
	}
	for what, c := range map[string]struct{ url, advice string }{
		"the right authority":                {url("127.0.0.1", "verify-full", right.file), ""},
		"the right authority, any host":      {url("localhost", "verify-ca", right.file), ""},
		"another authority":                  {url("127.0.0.1", "verify-full", wrong.file), "set sslrootcert"},
		"another authority, any host":        {url("127.0.0.1", "verify-ca", wrong.file), "set sslrootcert"},
		"another authority, require with it": {url("127.0.0.1", "require", wrong.file), "set sslrootcert"},
		"another host":                       {url("localhost", "verify-full", right.file), "set host"},
	} {
		t.Run(what, func(t *testing.T) { checkTLS(t, c.url, c.advice) })
	}

	t.Run("a relay encrypts all its connections", func(t *testing.T) { relayEncrypts(t, server, url("127.0.0.1", "verify-full", right.file)) })

	certificate, key = right.sign(t, time.Now().Add(-time.Hour))
	serve(t, server, certificate, key)
	t.Run("a certificate that has ended", func(t *testing.T) { checkTLS(t, url("127.0.0.1", "verify-full", right.file), "renew it") })
}

// checkTLS connects in all ways; without advice they succeed.
func checkTLS(t *testing.T, url, advice string) {
	t.Helper()
	store := newStore(t, url, nil)
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	migrator := newMigratorOf(t, cfg)
	ways := map[string]func(context.Context) error{
		"check": func(ctx context.Context) error {
			for _, f := range store.Check(ctx) {
				if !f.OK && f.Check == "connection" {
					return errors.New(f.Text + "; " + f.Fix)
				}
			}
			return nil
		},
		"beat": func(ctx context.Context) error {
			_, err := store.Beat(ctx, outbox.RelayInfo{ID: outbox.NewID(), Lease: time.Minute}, nil)
			return err
		},
		"redrive": func(ctx context.Context) error {
			_, err := store.Redrive(ctx, outbox.Change{Filter: outbox.Filter{All: true}})
			return err
		},
		"migrate": migrator.Validate,
		"replicate": func(ctx context.Context) error {
			conn, err := store.connectToReplicate(ctx)
			if err != nil {
				return store.explainStream(err)
			}
			return conn.Close(ctx)
		},
	}
	for way, connects := range ways {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		err := connects(ctx)
		cancel()
		switch {
		case advice == "" && err != nil:
			t.Errorf("%s: %v", way, err)
		case advice != "" && (err == nil || !strings.Contains(err.Error(), advice)):
			t.Errorf("%s: got %v, want the advice: %s", way, err, advice)
		case err != nil && strings.Contains(err.Error(), "hushmark"):
			t.Errorf("%s: the error shows the password: %v", way, err)
		}
	}
}

func newMigratorOf(t *testing.T, cfg *pgx.ConnConfig) *Migrator {
	t.Helper()
	m, err := NewMigrator(cfg, DefaultSchema)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// relayEncrypts lets a relay that streams and listens deliver a message, and looks at its connections meanwhile.
func relayEncrypts(t *testing.T, server *pgdev.Server, url string) {
	t.Helper()
	url += "&application_name=encrypted"
	store, err := Open(t.Context(), url, &Config{Engine: EngineWAL, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	delivered := make(chan struct{}, 10)
	relay, err := outbox.NewRelay(store, []outbox.Route{{Name: "lane", Topics: []string{">"}, Slots: 1,
		Sink: outbox.SinkFunc(func(context.Context, *outbox.Delivery) error { delivered <- struct{}{}; return nil })}},
		&outbox.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- relay.Run(ctx) }()
	observer := connect(t, url[:strings.Index(url, "?")]+"?sslmode=disable&application_name=observer")
	waitUntil(t, "the relay streams", func() bool {
		return value[bool](t, observer, "select exists (select from pg_stat_replication where application_name = 'encrypted')")
	})
	exec(t, observer, "insert into outbox.message (id, topic, payload) values (gen_random_uuid(), 'a', 'x')")
	<-delivered
	const connections = `select count(*) filter (where s.ssl), count(*) filter (where not s.ssl)
		from pg_stat_ssl s join pg_stat_activity a using (pid) where a.application_name = 'encrypted'`
	var encrypted, open int
	if err := observer.QueryRow(t.Context(), connections).Scan(&encrypted, &open); err != nil {
		t.Fatal(err)
	}
	if encrypted < 4 || open > 0 {
		t.Errorf("%d connections are encrypted and %d are not", encrypted, open)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestMissingCertificateFile: the error is of the file's kind, so that programs can tell it.
func TestMissingCertificateFile(t *testing.T) {
	_, err := Open(t.Context(), "postgres://u:hushmark@h/d?sslmode=verify-full&sslrootcert=/does/not/exist", nil)
	var file *fs.PathError
	if !errors.As(err, &file) || strings.Contains(err.Error(), "hushmark") {
		t.Errorf("%v", err)
	}
}
