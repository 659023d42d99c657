package main

import (
	"bytes"
	"errors"
	"maps"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/outboxrelay/outbox"
)

// FuzzParseLine: a line that is accepted and can be published is the same message when it is written, as "run --to
// stdout:" does, and read again.
func FuzzParseLine(f *testing.F) {
	for _, text := range []string{
		`{"topic":"a","payload":{"b": 1}}`, `{"topic":"a","payload":{"b":\t1,\r"<&>": "\u0070"},"content_type":""}`, `{"topic":"a","payload_base64":"AP8="}`, `{"topic":"a","max_attempts":"unlimited","ttl_seconds":1e300}`,
		`{"topic":"a"}{}`, `{"topic":"a","key":"\ud800"}`, `{"topic":"a","headers":{"X":"1","x":"2"}}`, `{"unknown":1}`, `[]`, `null`,
		`{"topic":"a","payload":null,"delay_seconds":-1}`, "\xff", `{"topic":"a","expires_at":"9999-12-31T23:59:59Z","broker_ttl_seconds":0.5}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := parseLine(text)
		if err != nil {
			return
		}
		made, err := outbox.Prepare(t.Context(), m, 0)
		if err != nil {
			var refused *outbox.FieldError
			if !errors.As(err, &refused) {
				t.Errorf("no field: %v", err)
			}
			return
		}
		written, err := newLine(&outbox.Delivery{Message: made, Seq: 1, Attempt: 1, PublishedAt: time.Unix(1, 0)}).encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseLine(bytes.TrimSpace(written))
		if err != nil {
			t.Fatalf("%s: %v", written, err)
		}
		if again.ID != made.ID || again.Topic != made.Topic || again.Key != made.Key || again.DedupKey != made.DedupKey ||
			!bytes.Equal(again.Payload, made.Payload) || !maps.Equal(again.Headers, made.Headers) || again.MaxAttempts != made.MaxAttempts {
			t.Errorf("%+v became %+v by %s", made, again, written)
		}
	})
}

// FuzzParseSize: a size that is accepted is what its number and unit say.
func FuzzParseSize(f *testing.F) {
	for _, text := range []string{"1", "64MiB", "2147483647GiB", "-1KiB", "1 KiB", "KiB", "1KiBMiB", "1_000", "0x10", "9223372036854775807"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := parseSize(text)
		if err != nil {
			return
		}
		number := strings.TrimSpace(strings.TrimRight(text, "KMGiB"))
		given, err := strconv.ParseInt(number, 10, 64)
		if err != nil || given < 0 != (n < 0) || n/max(given, 1) > 1<<30 || given != 0 && n%given != 0 {
			t.Errorf("%q is %d", text, n)
		}
	})
}

// FuzzSecrets: no password comes out of what is shown and of what is said about a URL, whether it was escaped or not.
func FuzzSecrets(f *testing.F) {
	for _, password := range []string{"hush-hush-1", "pa@ss:wo/rd", "a#b?c=d", "x,y,z://w", "p%zz-hush", "' password=x", `a\ b@c`} {
		for scheme := range len(secretForms) {
			f.Add(password, uint8(scheme))
		}
	}
	f.Fuzz(func(t *testing.T, password string, form uint8) {
		// The mark is long enough not to be in the texts by chance, and at both ends: no part may be shown.
		password = "hushmark" + password + "markhush"
		form %= uint8(len(secretForms))
		for _, p := range []string{password, url.QueryEscape(password)} {
			text := secretForms[form](p)
			shown := mask(text)
			d := &destination{name: "d", at: "destinations.d", url: secret{text: text}}
			if err := d.problem(nil); err != nil {
				shown += " " + err.Error()
			}
			c := newConfig()
			c.database.text = text
			if _, err := c.poolConfig(); err != nil {
				shown += " " + err.Error()
			}
			if strings.Contains(shown, "hushmark") || strings.Contains(shown, "markhush") {
				t.Errorf("%q shows as %q", text, shown)
			}
		}
	})
}

var secretForms = []func(password string) string{
	func(p string) string { return "postgres://me:" + p + "@h:1/db?sslmode=disable" },
	func(p string) string { return "postgres://me@h/db?sslmode=disable&password=" + p },
	func(p string) string { return "amqp://me:" + p + "@h:5672/v" },
	func(p string) string { return "amqps://me:" + p + "@h,amqps://me:" + p + "@i" },
	func(p string) string { return "nats://" + p + "@h:4222" },
	func(p string) string { return "nats://me:" + p + "@h:4222,nats://me:" + p + "@i:4222" },
	func(p string) string {
		return "host=h user=u password='" + strings.ReplaceAll(strings.ReplaceAll(p, `\`, `\\`), "'", `\'`) + "'"
	},
}
