package outbox_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/outboxrelay/outbox"
)

// FuzzPrepare: what is accepted is within the limits, and is accepted again as it is; what is refused is named. The
// caller's headers are never changed.
func FuzzPrepare(f *testing.F) {
	f.Add("orders.created", "k", "d", "application/json", "X-A", "1", "x-b", "2", int64(0), 0)
	f.Add("a", "k\x00", "", "", "Outbox-Key", "x", "nats-x", "", int64(-1), -1)
	f.Add("a", "\xff", "'; drop table", "text/plain", "Content-Type", "text/html", "content-type", "\r\nX: y", int64(1), outbox.Unlimited)
	f.Add("a", "\u0085", "", "a", "CONTENT-TYPE", "a", "é", "v", int64(1), 1)
	f.Fuzz(func(t *testing.T, topic, key, dedup, contentType, name1, value1, name2, value2 string, ttl int64, attempts int) {
		headers := map[string]string{name1: value1, name2: value2}
		given := maps.Clone(headers)
		m := outbox.Message{Topic: topic, Key: key, DedupKey: dedup, ContentType: contentType, Headers: headers,
			TTL: time.Duration(ttl), MaxAttempts: attempts}
		made, err := outbox.Prepare(t.Context(), m, 0)
		if !maps.Equal(headers, given) {
			t.Fatalf("the caller's headers became %q", headers)
		}
		if err != nil {
			mustNameField(t, err, "Topic", "Key", "DedupKey", "ContentType", "Headers", "TTL", "MaxAttempts")
			return
		}
		for what, text := range map[string]string{key: made.Key, dedup: made.DedupKey} {
			if what != text || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
				t.Errorf("accepted %q as %q", what, text)
			}
		}
		if len(key) > outbox.MaxKeyBytes || len(dedup) > outbox.MaxDedupKeyBytes || len(made.Headers) > outbox.MaxHeaders {
			t.Errorf("accepted more than the limits: %+v", m)
		}
		folded := map[string]bool{}
		for name, value := range made.Headers {
			lower := strings.ToLower(name)
			if folded[lower] || strings.HasPrefix(lower, "outbox-") || strings.HasPrefix(lower, "nats-") || strings.ContainsFunc(value, unicode.IsControl) {
				t.Errorf("accepted the header %q: %q of %q", name, value, made.Headers)
			}
			folded[lower] = true
		}
		again, err := outbox.Prepare(t.Context(), made, 0)
		if err != nil || again.ID != made.ID || !maps.Equal(again.Headers, made.Headers) {
			t.Errorf("%+v was made %+v, %v", made, again, err)
		}
	})
}

// FuzzCausation: a chain that is published arrives as it was, shortened only as documented; the header of a foreign row
// gives ids that can be published, or none.
func FuzzCausation(f *testing.F) {
	f.Add("request-7, job-1")
	f.Add(",,\x00,a b,\xff,é")
	f.Add(strings.Repeat("a,", 40))
	f.Add(strings.Repeat("a", 129))
	f.Fuzz(func(t *testing.T, header string) {
		const name = "Outbox-Causation"
		d := &outbox.Delivery{Message: outbox.Message{Headers: map[string]string{name: header}}}
		ids := d.Causation()
		made, err := outbox.Prepare(outbox.WithCausation(context.Background(), ids...), outbox.Message{Topic: "a"}, 0)
		if err != nil {
			t.Fatalf("%q gave %q: %v", header, ids, err)
		}
		want := ids
		if len(want) > outbox.MaxCausation {
			want = slices.Concat(ids[:1], ids[len(ids)-outbox.MaxCausation+1:])
		}
		if got := (&outbox.Delivery{Message: made}).Causation(); !slices.Equal(got, want) {
			t.Errorf("%q became %q", want, got)
		}
		if _, err := outbox.Prepare(outbox.WithCausation(context.Background(), header), outbox.Message{Topic: "a"}, 0); err != nil {
			mustNameField(t, err, "WithCausation")
		}
	})
}

// FuzzParseDuration: what is read has the sign of its text, and is read again as it is printed.
func FuzzParseDuration(f *testing.F) {
	for _, text := range []string{"1d12h", "1.5s", "0", "0s", "-1s", "100000d", "100000d2562047h", "d", "1d-1s", "99999999d", "1dd", "+1d"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := outbox.ParseDuration(text)
		if err != nil {
			return
		}
		if d < 0 && !strings.HasPrefix(text, "-") {
			t.Errorf("%q is %v", text, d)
		}
		if again, err := outbox.ParseDuration(d.String()); err != nil || again != d {
			t.Errorf("%q is %v, read again %v, %v", text, d, again, err)
		}
	})
}

// FuzzSet: a setting is accepted or refused by name, never half.
func FuzzSet(f *testing.F) {
	for _, entry := range [][2]string{{"lease", "1d"}, {"retry_jitter", "NaN"}, {"retry_jitter", "1e400"}, {"max_attempts", "unlimited"}, {"order", "skip"}, {"", ""}, {"leese", "1s"}} {
		f.Add(entry[0], entry[1])
	}
	f.Fuzz(func(t *testing.T, name, text string) {
		var c outbox.Config
		if err := c.Set(name, text); err != nil {
			mustNameField(t, err, name)
			return
		}
		_, err := outbox.NewRelay(nil, nil, &c)
		if err == nil {
			t.Error("a relay without a store")
		}
	})
}

// mustNameField fails unless the error names one of the fields and says what would be accepted.
func mustNameField(t *testing.T, err error, fields ...string) {
	t.Helper()
	var refused *outbox.FieldError
	if !errors.As(err, &refused) || refused.Bound == "" {
		t.Fatalf("no field: %v", err)
	}
	base, _, _ := strings.Cut(refused.Field, "[")
	if !slices.Contains(fields, refused.Field) && !slices.Contains(fields, base) {
		t.Errorf("field %q: %v", refused.Field, err)
	}
}
