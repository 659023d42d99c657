package pgdev

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// Cluster makes and drops databases on a server, a private one or any other whose user may create databases. Its
// methods are safe for concurrent use. It keeps no connection.
type Cluster struct {
	url string

	mu        sync.Mutex
	templates map[string]*template
}

// template is a database that others are copied from.
type template struct {
	once     sync.Once
	database string
	err      error
}

// NewCluster is for a server that runs already; the URL names a database to connect to for administration.
func NewCluster(serverURL string) (*Cluster, error) {
	u, err := url.Parse(serverURL)
	if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
		return nil, errors.New("server URL: want the form postgres://user:password@host:port/database")
	}
	return &Cluster{url: serverURL}, nil
}

// URL is the connection string of the named database.
func (c *Cluster) URL(database string) string {
	u, err := url.Parse(c.url)
	if err != nil {
		return c.url // NewCluster and Server let only proper URLs in
	}
	u.Path = "/" + database
	return u.String()
}

// Create makes a new, empty database and returns its name.
func (c *Cluster) Create(ctx context.Context) (database string, err error) {
	return c.create(ctx, "template1")
}

// CreateFrom makes a copy of the named template and returns its name. The first call for a name makes the template:
// prepare gets the connection string of an empty database and must have closed its connections when it returns. If
// that fails, all calls for the name do.
func (c *Cluster) CreateFrom(ctx context.Context, name string, prepare func(ctx context.Context, url string) error) (database string, err error) {
	c.mu.Lock()
	if c.templates == nil {
		c.templates = map[string]*template{}
	}
	t := c.templates[name]
	if t == nil {
		t = &template{}
		c.templates[name] = t
	}
	c.mu.Unlock()

	t.once.Do(func() { t.database, t.err = c.prepare(ctx, prepare) })
	if t.err != nil {
		return "", fmt.Errorf("template %s: %w", name, t.err)
	}
	return c.create(ctx, t.database)
}

func (c *Cluster) prepare(ctx context.Context, prepare func(ctx context.Context, url string) error) (string, error) {
	database, err := c.Create(ctx)
	if err != nil {
		return "", err
	}
	if err := prepare(ctx, c.URL(database)); err != nil {
		return "", errors.Join(err, c.Drop(ctx, database))
	}
	return database, nil
}

func (c *Cluster) create(ctx context.Context, template string) (string, error) {
	database := "outbox_test_" + strings.ToLower(rand.Text()[:12])
	err := c.exec(ctx, "create database "+database+" template "+pgx.Identifier{template}.Sanitize())
	if err != nil {
		return "", fmt.Errorf("create database: %w", err)
	}
	return database, nil
}

// Close drops the templates; of a private server they go with it anyway.
func (c *Cluster) Close(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, t := range c.templates {
		if t.database != "" {
			errs = append(errs, c.Drop(ctx, t.database))
		}
	}
	c.templates = nil
	return errors.Join(errs...)
}

func (c *Cluster) exec(ctx context.Context, sql string) error {
	return c.connected(ctx, c.url, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, sql)
		return err
	})
}

// connected runs f with a connection of its own, so that no restart of the server spoils the next call.
func (c *Cluster) connected(ctx context.Context, url string, f func(conn *pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	return f(conn)
}
