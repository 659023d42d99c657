package pgstore

import (
	"embed"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"
)

//go:embed queries/*.sql
var queryFiles embed.FS

// statement is one SQL statement and the types of its parameters.
type statement struct {
	file   string // in queries
	name   string // of the prepared statement; has the schema in it, since pools may be shared
	sql    string
	params []uint32
}

// statements are a Store's own, with the schema's name in them.
type statements struct {
	begin, commit, deadlines, asyncCommit statement
	claim, fetch, sweep, endFrozenClaim   statement
	belowMark                             statement
	settleDelivered, settle, hasEnded     statement
	beat, holders                         statement
	expireDedup, retryAhead, notify, wake statement
	setArchive, addPartition              statement
	dropPartition, expireArchive          statement
	redrive, retry, discard, discardHeld  statement
	purge, replay                         statement
	pause, resume                         statement
	streamSlot, createPublication         statement
	streamBeat, streaming                 statement
}

// statementFile is where a statement's SQL is, and what types its parameters have.
type statementFile struct {
	to     *statement
	file   string
	params []uint32
}

func newStatements(schema string) (*statements, error) {
	s := &statements{}
	for _, f := range s.files() {
		sql, err := queryFiles.ReadFile("queries/" + f.file + ".sql")
		if err != nil {
			return nil, fmt.Errorf("read statement %s: %w", f.file, err)
		}
		*f.to = statement{file: f.file, name: schema + "/" + f.file, sql: render(string(sql), schema), params: f.params}
	}
	return s, nil
}

func (s *statements) files() []statementFile {
	const (
		boolean, integer, bigint = pgtype.BoolOID, pgtype.Int4OID, pgtype.Int8OID
		text, uuid, jsonb        = pgtype.TextOID, pgtype.UUIDOID, pgtype.JSONBOID
		timestamp, interval      = pgtype.TimestamptzOID, pgtype.IntervalOID
		integers, bigints        = pgtype.Int4ArrayOID, pgtype.Int8ArrayOID
		texts, uuids             = pgtype.TextArrayOID, pgtype.UUIDArrayOID
	)
	change := []uint32{uuids, text, text, text, text, interval, interval, boolean, bigint, text, text, boolean, integer, integer, bigint}
	return []statementFile{
		{&s.begin, "begin", nil},
		{&s.commit, "commit", nil},
		{&s.deadlines, "deadlines", []uint32{text, text}},
		{&s.asyncCommit, "async_commit", nil},
		{&s.claim, "claim", []uint32{uuid, text, uuid, integer, bigint, boolean, jsonb, bigint,
			boolean, integer, boolean, timestamp, bigint, integer, texts, bigints, bigints, integer, bigint, bigint, integer,
			bigint, bigint, texts, boolean, bigints}},
		{&s.belowMark, "below_mark", []uint32{uuid, text, bigint, bigint, texts, bigint, integer}},
		{&s.fetch, "fetch", []uint32{uuid, uuid, interval, bigints}},
		{&s.sweep, "sweep", []uint32{uuid, text, text, bigint, bigint, integer}},
		{&s.endFrozenClaim, "end_frozen_claim", nil},
		{&s.settleDelivered, "settle_delivered", []uint32{uuid, bigints, uuids, boolean}},
		{&s.settle, "settle", []uint32{uuid, bigints, uuids, bigints, texts, integers, bigints, texts, texts, boolean, boolean}},
		{&s.hasEnded, "has_ended", []uint32{bigint}},
		{&s.beat, "beat", []uint32{uuid, bigint, interval, uuids, boolean, jsonb, jsonb, jsonb, boolean,
			text, integer, text, text, jsonb, text, boolean, boolean, jsonb}},
		{&s.holders, "holders", []uint32{uuid}},
		{&s.expireDedup, "expire_dedup", []uint32{bigint}},
		{&s.retryAhead, "retry_ahead", nil},
		{&s.setArchive, "set_archive", []uint32{text}},
		{&s.addPartition, "add_partition", []uint32{timestamp, text}},
		{&s.dropPartition, "drop_partition", []uint32{timestamp, interval}},
		{&s.expireArchive, "expire_archive", []uint32{timestamp, interval, integer}},
		{&s.notify, "notify", []uint32{text}},
		{&s.redrive, "redrive", slices.Concat(change, []uint32{text, boolean})},
		{&s.retry, "retry", slices.Concat(change, []uint32{text, boolean})},
		{&s.discard, "discard", slices.Concat(change, []uint32{texts, text})},
		{&s.purge, "purge", slices.Concat(change, []uint32{texts, boolean})},
		{&s.replay, "replay", slices.Concat(change, []uint32{texts, text})},
		{&s.discardHeld, "discard_held", []uint32{bigint, interval}},
		{&s.pause, "pause", []uint32{text, text, text, text}},
		{&s.resume, "resume", []uint32{text, text, text, text}},
		{&s.streamSlot, "stream_slot", []uint32{text}},
		{&s.createPublication, "create_publication", nil},
		{&s.streamBeat, "stream_beat", []uint32{text, text}},
		{&s.streaming, "streaming", []uint32{uuids, boolean, jsonb}},
		{&s.wake, "wake", []uint32{texts, boolean}},
	}
}
