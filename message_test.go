package outbox_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/outboxrelay/outbox"
)

func manyHeaders(n int) map[string]string {
	h := map[string]string{}
	for i := range n {
		h[fmt.Sprint("h", i)] = "v"
	}
	return h
}

func oneHeader(name, value string) map[string]string { return map[string]string{name: value} }

// prepareCases cover every limit at its boundary. An empty field: accepted.
var prepareCases = map[string]struct {
	change func(m *outbox.Message)
	field  string
}{
	"plain":                  {func(m *outbox.Message) {}, ""},
	"no topic":               {func(m *outbox.Message) { m.Topic = "" }, "Topic"},
	"topic of 255":           {func(m *outbox.Message) { m.Topic = strings.Repeat("a", 255) }, ""},
	"topic of 256":           {func(m *outbox.Message) { m.Topic = strings.Repeat("a", 256) }, "Topic"},
	"topic not ASCII":        {func(m *outbox.Message) { m.Topic = "zürich" }, "Topic"},
	"topic with wildcard":    {func(m *outbox.Message) { m.Topic = "a.*" }, "Topic"},
	"topic with empty token": {func(m *outbox.Message) { m.Topic = "a..b" }, "Topic"},
	"topic with NUL":         {func(m *outbox.Message) { m.Topic = "a\x00" }, "Topic"},
	"key of 512":             {func(m *outbox.Message) { m.Key = strings.Repeat("k", 512) }, ""},
	"key of 513":             {func(m *outbox.Message) { m.Key = strings.Repeat("k", 513) }, "Key"},
	"key of 171 × 3 bytes":   {func(m *outbox.Message) { m.Key = strings.Repeat("鍵", 171) }, "Key"},
	"key not ASCII":          {func(m *outbox.Message) { m.Key = "schlüssel 鍵 🔑" }, ""},
	"key with line break":    {func(m *outbox.Message) { m.Key = "a\nb" }, "Key"},
	"key with NUL":           {func(m *outbox.Message) { m.Key = "a\x00b" }, "Key"},
	"key with DEL":           {func(m *outbox.Message) { m.Key = "a\x7fb" }, "Key"},
	"key with C1 control":    {func(m *outbox.Message) { m.Key = "a\u0085b" }, "Key"},
	"key not UTF-8":          {func(m *outbox.Message) { m.Key = "a\xffb" }, "Key"},
	"dedup key of 255":       {func(m *outbox.Message) { m.DedupKey = strings.Repeat("d", 255) }, ""},
	"dedup key of 256":       {func(m *outbox.Message) { m.DedupKey = strings.Repeat("d", 256) }, "DedupKey"},
	"dedup key with NUL":     {func(m *outbox.Message) { m.DedupKey = "\x00" }, "DedupKey"},
	"payload at limit":       {func(m *outbox.Message) { m.Payload = make([]byte, 1<<20) }, ""},
	"payload above limit":    {func(m *outbox.Message) { m.Payload = make([]byte, 1<<20+1) }, "Payload"},
	"payload nil":            {func(m *outbox.Message) { m.Payload = nil }, ""},
	"payload of any bytes":   {func(m *outbox.Message) { m.Payload = []byte("\x00\xff\xfe") }, ""},
	"64 headers":             {func(m *outbox.Message) { m.Headers = manyHeaders(64) }, ""},
	"65 headers":             {func(m *outbox.Message) { m.Headers = manyHeaders(65) }, "Headers"},
	"header name of 64":      {func(m *outbox.Message) { m.Headers = oneHeader(strings.Repeat("n", 64), "") }, ""},
	"header name of 65":      {func(m *outbox.Message) { m.Headers = oneHeader(strings.Repeat("n", 65), "") }, "Headers"},
	"header name empty":      {func(m *outbox.Message) { m.Headers = oneHeader("", "v") }, "Headers"},
	"header name with space": {func(m *outbox.Message) { m.Headers = oneHeader("a b", "v") }, "Headers"},
	"header name not ASCII":  {func(m *outbox.Message) { m.Headers = oneHeader("ä", "v") }, "Headers"},
	"header name with dots":  {func(m *outbox.Message) { m.Headers = oneHeader("a.b_c-D", "v") }, ""},
	"headers of 16 KiB":      {func(m *outbox.Message) { m.Headers = oneHeader("n", strings.Repeat("v", 16<<10-1)) }, ""},
	"headers above 16 KiB":   {func(m *outbox.Message) { m.Headers = oneHeader("nn", strings.Repeat("v", 16<<10-1)) }, "Headers"},
	"header value newline":   {func(m *outbox.Message) { m.Headers = oneHeader("n", "a\r\nb") }, "Headers[n]"},
	"header value not UTF-8": {func(m *outbox.Message) { m.Headers = oneHeader("n", "\xc3") }, "Headers[n]"},
	"header value unicode":   {func(m *outbox.Message) { m.Headers = oneHeader("n", "größe 鍵") }, ""},
	"headers same but case":  {func(m *outbox.Message) { m.Headers = map[string]string{"Ab": "1", "aB": "1"} }, "Headers"},
	"reserved Outbox-":       {func(m *outbox.Message) { m.Headers = oneHeader("oUtBoX-id", "1") }, "Headers"},
	"reserved Nats-":         {func(m *outbox.Message) { m.Headers = oneHeader("NATS-Msg-Id", "1") }, "Headers"},
	"content type agrees": {func(m *outbox.Message) {
		m.ContentType, m.Headers = "text/plain", oneHeader("Content-Type", "text/plain")
	}, ""},
	"content type disagrees": {func(m *outbox.Message) {
		m.ContentType, m.Headers = "text/plain", oneHeader("Content-Type", "text/html")
	}, "ContentType"},
	"content type control": {func(m *outbox.Message) { m.ContentType = "a\n" }, "ContentType"},
	"delay":                {func(m *outbox.Message) { m.Delay = time.Hour }, ""},
	"delay negative":       {func(m *outbox.Message) { m.Delay = -1 }, "Delay"},
	"delay and time":       {func(m *outbox.Message) { m.Delay, m.DeliverAt = 1, time.Now() }, "Delay"},
	"time in the past":     {func(m *outbox.Message) { m.DeliverAt = time.Unix(0, 0) }, ""},
	"TTL negative":         {func(m *outbox.Message) { m.TTL = -1 }, "TTL"},
	"TTL and expiry":       {func(m *outbox.Message) { m.TTL, m.ExpiresAt = 1, time.Now() }, "TTL"},
	"broker TTL negative":  {func(m *outbox.Message) { m.BrokerTTL = -1 }, "BrokerTTL"},
	"attempts negative":    {func(m *outbox.Message) { m.MaxAttempts = -1 }, "MaxAttempts"},
	"attempts unlimited":   {func(m *outbox.Message) { m.MaxAttempts = outbox.Unlimited }, ""},
	"attempts of 1":        {func(m *outbox.Message) { m.MaxAttempts = 1 }, ""},
	"attempts above int32": {func(m *outbox.Message) { m.MaxAttempts = outbox.Unlimited + 1 }, "MaxAttempts"},
}

func TestPrepare(t *testing.T) {
	for name, tc := range prepareCases {
		t.Run(name, func(t *testing.T) {
			m := outbox.Message{Topic: "orders.created", Payload: []byte("x")}
			tc.change(&m)
			_, err := outbox.Prepare(t.Context(), m, 0)
			var refused *outbox.FieldError
			switch {
			case tc.field == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tc.field != "" && (!errors.As(err, &refused) || refused.Field != tc.field || refused.Bound == ""):
				t.Errorf("error %v, want one of field %s", err, tc.field)
			}
		})
	}
}

func TestPrepareCompletes(t *testing.T) {
	mine := map[string]string{"a": "b"}
	m, err := outbox.Prepare(t.Context(), outbox.Message{Topic: "a", Headers: mine, ContentType: "text/plain"}, 0)
	if err != nil || m.ID.IsZero() || m.ID[6]>>4 != 7 || m.Headers["content-type"] != "text/plain" || m.Headers["a"] != "b" {
		t.Errorf("%+v, %v", m, err)
	}
	if len(mine) != 1 {
		t.Error("the caller's headers were changed")
	}
	id := outbox.NewID()
	if m, _ = outbox.Prepare(t.Context(), outbox.Message{ID: id, Topic: "a"}, 0); m.ID != id {
		t.Error("the caller's id was not kept")
	}
	if _, err = outbox.Prepare(t.Context(), outbox.Message{Topic: "a", Payload: make([]byte, 2<<20)}, 4<<20); err != nil {
		t.Errorf("a payload below a raised limit: %v", err)
	}
}

// TestFieldErrorIsReadable: an error names field, value and bound, the value cut between characters.
func TestFieldErrorIsReadable(t *testing.T) {
	_, err := outbox.Prepare(t.Context(), outbox.Message{Topic: "a", Key: strings.Repeat("鍵", 300)}, 0)
	if err == nil || len(err.Error()) > 200 || !strings.Contains(err.Error(), "Key") || strings.Contains(err.Error(), `\x`) {
		t.Errorf("error %v", err)
	}
}

func TestID(t *testing.T) {
	var last outbox.ID
	for range 1000 {
		id := outbox.NewID()
		if bytes.Compare(id[:], last[:]) <= 0 {
			t.Fatalf("%v after %v", id, last)
		}
		last = id
	}
	back, err := outbox.ParseID(last.String())
	if err != nil || back != last {
		t.Errorf("%v read as %v, %v", last, back, err)
	}
	for _, s := range []string{"", "x", "{" + last.String() + "}", "urn:uuid:" + last.String(), strings.ReplaceAll(last.String(), "-", "")} {
		if _, err := outbox.ParseID(s); err == nil {
			t.Errorf("%q accepted", s)
		}
	}
}
