package pgstore

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/interval"
)

// publishFunction publishes a message by the SQL function, as a client in any language would.
func publishFunction(t testing.TB, conn *pgx.Conn, m outbox.Message) outbox.Receipt {
	t.Helper()
	payload := m.Payload
	if payload == nil {
		payload = []byte{}
	}
	var ownID any
	if !m.ID.IsZero() {
		ownID = m.ID.String()
	}
	var id *outbox.ID
	err := conn.QueryRow(t.Context(), `select outbox.publish(topic => $1, payload => $2, key => $3, headers => $4,
		content_type => $5, ttl => $6::text::interval, expires_at => $7::text::timestamptz,
		broker_ttl => $8::text::interval, dedup_key => $9, max_attempts => $10::text::int, id => $11::text::uuid,
		deliver_at => $12::text::timestamptz)`,
		m.Topic, payload, orNull(m.Key), headersJSON(m.Headers), orNull(m.ContentType), orNull(interval.Text(m.TTL)),
		orNull(timestamp(m.ExpiresAt)), orNull(interval.Text(m.BrokerTTL)), orNull(m.DedupKey), orNull(maxAttempts(m.MaxAttempts)),
		ownID, orNull(timestamp(m.DeliverAt))).Scan(&id)
	if err != nil {
		t.Fatal(err)
	}
	if id == nil {
		return outbox.Receipt{Duplicate: true}
	}
	return outbox.Receipt{ID: *id}
}

// TestPublishFunction: the same message by the SQL function is the same row.
func TestPublishFunction(t *testing.T) {
	t.Parallel()
	conn := connect(t, migratedDatabase(t))
	ms := slices.Concat(everyMessage(), special(everyMessage()))
	var receipts []outbox.Receipt
	for _, m := range ms {
		receipts = append(receipts, publishFunction(t, conn, m))
	}
	checkStored(t, stored(t, conn), ms, receipts)
}

func TestPublishJSON(t *testing.T) {
	t.Parallel()
	conn := connect(t, migratedDatabase(t))
	exec(t, conn, `select outbox.publish_json('t', '{"b" : 1,  "a":"\u0041", "a":2}')`)
	exec(t, conn, `select outbox.publish_json('t', '1', content_type => 'x/y')`)
	exec(t, conn, `select outbox.publish_json('t', '1', headers => '{"Content-Type": "x/z"}')`)
	got := values[string](t, conn, "select convert_from(payload, 'UTF8') || headers::text from outbox.message order by seq")
	want := []string{
		`{"b" : 1,  "a":"\u0041", "a":2}{"content-type": "application/json"}`,
		`1{"content-type": "x/y"}`, `1{"Content-Type": "x/z"}`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// TestPlainInsert: the documented columns are enough.
func TestPlainInsert(t *testing.T) {
	t.Parallel()
	conn := connect(t, migratedDatabase(t))
	exec(t, conn, `insert into outbox.message (id, topic, key, payload, headers) values (gen_random_uuid(), 't', 'k', '\x00', '{"a":"b"}')`)
	exec(t, conn, `insert into outbox.message (id, topic, payload) values (gen_random_uuid(), 't', '')`)
	if n := value[int](t, conn, "select count(*) from outbox.message where seq > 0 and published_at <= clock_timestamp()"); n != 2 {
		t.Errorf("%d rows", n)
	}
}

// TestSQLRefusals: what Go refuses before any SQL is refused from SQL by a constraint or an error with a clear name.
func TestSQLRefusals(t *testing.T) {
	t.Parallel()
	conn := connect(t, migratedDatabase(t))
	exec(t, conn, "insert into outbox.setting values ('payload_max', '100')")
	cases := []struct{ args, want string }{
		{`'', ''`, "message_topic"},
		{`'a b', ''`, "message_topic"},
		{`'a..b', ''`, "message_topic"},
		{`repeat('a', 256), ''`, "message_topic"},
		{`'t', '', key => ''`, "message_key"},
		{`'t', '', key => repeat('k', 10000)`, "message_key"},
		{`'t', '', key => E'a\nb'`, "message_key"},
		{`'t', '', key => E'\u0085'`, "message_key"},
		{`'t', '', dedup_key => ''`, "message_dedup_key"},
		{`'t', '', dedup_key => repeat('d', 256)`, "message_dedup_key"},
		{`'t', '', headers => '{"Outbox-Id":"x"}'`, "message_headers"},
		{`'t', '', headers => '{"nats-x":"x"}'`, "message_headers"},
		{`'t', '', headers => '{"a":1}'`, "message_headers"},
		{`'t', '', headers => '{"a":null}'`, "message_headers"},
		{`'t', '', headers => '[]', content_type => 'x'`, "message_headers"},
		{`'t', '', headers => '"x"'`, "message_headers"},
		{`'t', '', headers => '{"a":"1","A":"2"}'`, "message_headers"},
		{`'t', '', headers => '{"a b":"1"}'`, "message_headers"},
		{`'t', '', headers => '{"a":"x\ny"}'`, "message_headers"},
		{`'t', '', headers => jsonb_build_object('a', repeat('x', 16384))`, "message_headers"},
		{`'t', '', content_type => E'a\nb'`, "message_headers"},
		{`'t', convert_to(repeat('x', 101), 'UTF8')`, "message_payload_max"},
		{`'t', '', max_attempts => -1`, "message_max_attempts"},
		{`'t', '', broker_ttl => '0'`, "message_broker_ttl"},
		{`'t', '', delay => '1 h', key => ''`, "waiting_key"},
		{`'t', '', delay => '1 h', deliver_at => now()`, "22023"},
		{`'t', '', delay => '-1 s'`, "22023"},
		{`'t', '', ttl => '1 h', expires_at => now()`, "22023"},
		{`'t', '', ttl => '-1 s'`, "22023"},
		{`'t', '', headers => '{"Content-Type":"a"}', content_type => 'b'`, "22023"},
		{`null, ''`, "23502"},
		{`'', '', dedup_key => 'd'`, "message_topic"},
		{`'t', null`, "23502"},
	}
	for _, c := range cases {
		_, err := conn.Exec(t.Context(), "select outbox.publish("+c.args+")")
		var pgErr *pgconn.PgError
		if !errors.As(err, &pgErr) || pgErr.ConstraintName != c.want && (pgErr.Code != c.want || pgErr.ConstraintName != "") {
			t.Errorf("publish(%s): %v, want %s", c.args, err, c.want)
		}
	}
	if n := value[int](t, conn, "select (select count(*) from outbox.message) + (select count(*) from outbox.waiting) + (select count(*) from outbox.dedup)"); n != 0 {
		t.Errorf("%d rows", n)
	}
}

// TestRefusalsShowNoRow: an error of SQL goes to the client and to the server's log; payloads do not belong there.
func TestRefusalsShowNoRow(t *testing.T) {
	t.Parallel()
	conn := connect(t, migratedDatabase(t))
	columns := map[string]string{"topic": "'a b'", "key": `E'a\nb'`, "headers": `'{"a":1}'`, "dedup_key": "''", "max_attempts": "-1", "broker_ttl": "'0'"}
	refused := map[string]string{"null topic": "select outbox.publish(null, 'hush')", "no topic": "select outbox.publish('', 'hush', dedup_key => 'd')",
		"infinite": "select outbox.publish('t', 'hush', expires_at => 'infinity')"}
	for column, value := range columns {
		topic, more := "'t'", fmt.Sprintf(", %s => %s", column, value)
		if column == "topic" {
			topic, more = value, ""
		}
		refused["publish "+column] = fmt.Sprintf("select outbox.publish(%s, 'hush'%s)", topic, more)
		refused["publish later "+column] = fmt.Sprintf("select outbox.publish(%s, 'hush', delay => '1 h'%s)", topic, more)
		refused["insert "+column] = fmt.Sprintf("insert into outbox.message (id, payload, topic) values (gen_random_uuid(), 'hush', %s)", topic)
		if more != "" {
			refused["insert "+column] = fmt.Sprintf("insert into outbox.message (id, payload, topic, %s) values (gen_random_uuid(), 'hush', 't', %s)", column, value)
		}
	}
	for name, sql := range refused {
		_, err := conn.Exec(t.Context(), sql)
		var pgErr *pgconn.PgError
		if !errors.As(err, &pgErr) || pgErr.SchemaName != "outbox" || pgErr.ColumnName == "" || !strings.HasPrefix(pgErr.Message, pgErr.ColumnName) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if all := fmt.Sprintf("%+v", *pgErr); strings.Contains(all, "hush") || strings.Contains(all, "68757368") {
			t.Errorf("%s: the error shows the payload: %s", name, all)
		}
	}
}

// TestPayloadMaxDefault: 1 MiB without a setting.
func TestPayloadMaxDefault(t *testing.T) {
	t.Parallel()
	conn := connect(t, migratedDatabase(t))
	const sql = "select outbox.publish('t', convert_to(repeat('x', $1), 'UTF8'))"
	exec(t, conn, sql, outbox.DefaultMaxPayload)
	_, err := conn.Exec(t.Context(), sql, outbox.DefaultMaxPayload+1)
	if err == nil || !strings.Contains(err.Error(), fmt.Sprint(outbox.DefaultMaxPayload+1)) || !strings.Contains(err.Error(), fmt.Sprint(outbox.DefaultMaxPayload)) {
		t.Errorf("%v, want the size and the limit", err)
	}
}

func TestSQLReceipts(t *testing.T) {
	t.Parallel()
	conn := connect(t, migratedDatabase(t))
	const first = "select outbox.publish('t', '', dedup_key => 'd') is not null"
	if !value[bool](t, conn, first) || value[bool](t, conn, first) {
		t.Error("want an id, then null")
	}
	const own = "select outbox.publish('t', '', id => '0192f5a4-7d3c-7f2a-9c1b-0a1b2c3d4e5f')::text"
	if id := value[string](t, conn, own); id != "0192f5a4-7d3c-7f2a-9c1b-0a1b2c3d4e5f" {
		t.Error(id)
	}
	_, err := conn.Exec(t.Context(), own)
	if state, constraint := sqlError(err); state != "23505" || constraint != "message_id_unique" {
		t.Errorf("%v", err)
	}
}

// TestNewID: made in SQL as in Go: version 7, sorted by time.
func TestNewID(t *testing.T) {
	t.Parallel()
	conn := connect(t, migratedDatabase(t))
	before := outbox.NewID().String()
	first := value[string](t, conn, "select outbox.new_id()::text")
	exec(t, conn, "select pg_sleep(0.002)")
	second := value[string](t, conn, "select outbox.new_id()::text")
	if first[14] != '7' || !strings.ContainsAny(first[19:20], "89ab") {
		t.Errorf("%s is not of version 7", first)
	}
	if first >= second || before[:8] > first[:8] {
		t.Errorf("not sorted: %s %s %s", before, first, second)
	}
}

// TestPublisherRoles: a publisher by SQL function needs EXECUTE, the Go publisher the documented rights; without
// them nothing works.
func TestPublisherRoles(t *testing.T) {
	t.Parallel()
	conn := connect(t, migratedDatabase(t))
	sqlRole, goRole := "outbox_test_sql_"+value[string](t, conn, "select current_database()"), "outbox_test_go_"+value[string](t, conn, "select current_database()")
	for _, role := range []string{sqlRole, goRole} {
		quoted := pgx.Identifier{role}.Sanitize()
		exec(t, conn, "create role "+quoted)
		defer exec(t, conn, "drop owned by "+quoted+"; drop role "+quoted)
		exec(t, conn, "grant usage on schema outbox to "+quoted)
		defer exec(t, conn, "reset role")
	}
	sqlRole, goRole = pgx.Identifier{sqlRole}.Sanitize(), pgx.Identifier{goRole}.Sanitize()
	p := newPublisher(t, nil)
	goCall := func() error {
		tx := begin(t, conn)
		defer tx.Rollback(t.Context())
		if _, err := p.Publish(t.Context(), tx, outbox.Message{Topic: "t"}); err != nil {
			return err
		}
		if _, err := p.Publish(t.Context(), tx, thousandAndOne()...); err != nil { // by COPY
			return err
		}
		_, err := p.Publish(t.Context(), tx, outbox.Message{Topic: "t", DedupKey: "d"})
		return err
	}
	sqlCall := func() error {
		_, err := conn.Exec(t.Context(), "select outbox.publish('t', '', dedup_key => 'd'), outbox.publish_json('t', '1')")
		return err
	}
	proveCall := func() error { // what PublishQuerier does first
		tx := begin(t, conn)
		defer tx.Rollback(t.Context())
		_, err := tx.Exec(t.Context(), p.inTransactionSQL)
		return err
	}
	check := func(role string, call func() error, allowed bool) {
		t.Helper()
		exec(t, conn, "set role "+role)
		err := call()
		exec(t, conn, "reset role")
		if state, _ := sqlError(err); allowed && err != nil || !allowed && state != "42501" {
			t.Errorf("allowed %v: %v", allowed, err)
		}
	}
	check(sqlRole, sqlCall, false)
	check(goRole, goCall, false)
	exec(t, conn, "grant execute on function outbox.publish, outbox.publish_json to "+sqlRole)
	exec(t, conn, "grant insert on outbox.message to "+goRole)
	exec(t, conn, "grant usage on sequence outbox.seq to "+goRole)
	exec(t, conn, "grant execute on function outbox.publish_row to "+goRole)
	exec(t, conn, "grant execute on function outbox.headers_valid, outbox.refuse to "+goRole)
	check(sqlRole, sqlCall, true)
	check(goRole, goCall, true)
	check(goRole, proveCall, false)
	exec(t, conn, "grant select on outbox.migration to "+goRole)
	check(goRole, proveCall, true)
}
