package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/outboxrelay/outbox"
)

// fileRun is the publishing of a file.
type fileRun struct {
	app                   *app
	p                     *publisher
	name                  string // of the file
	batch                 int
	began, talk           time.Time
	published, duplicates int64
	committed             int // the last line of the last batch
}

const talkInterval = 2 * time.Second

// publishFile publishes a file's lines batch by batch.
func (a *app) publishFile(ctx context.Context, p *publisher, path string, batch int) error {
	in, name := os.Stdin, "standard input"
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return failf(exitUsage, "--file: %w", err)
		}
		defer f.Close()
		in, name = f, path
	}
	now := time.Now()
	r := &fileRun{app: a, p: p, name: name, batch: batch, began: now, talk: now.Add(talkInterval)}
	err := r.publish(ctx, in)
	if err != nil && r.committed > 0 {
		err = fmt.Errorf("%w; everything up to line %d is published", err, r.committed)
	} else if err != nil {
		err = fmt.Errorf("%w; nothing is published", err)
	}
	if err != nil {
		return err
	}
	return r.report()
}

func (r *fileRun) publish(ctx context.Context, in io.Reader) error {
	reader := bufio.NewReaderSize(in, 1<<16)
	var pending []outbox.Message
	size := 0
	for number := 1; ; number++ {
		text, err := readLine(reader)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("%s:%d: %w", r.name, number, err)
		}
		last := err != nil
		if text = bytes.TrimSpace(text); len(text) > 0 {
			m, err := r.read(ctx, text)
			if err != nil {
				return failf(exitUsage, "%s:%d: %s", r.name, number, told(err, lineNames))
			}
			pending, size = append(pending, m), size+len(text)
		}
		if len(pending) == r.batch || size >= maxBatchBytes || last && len(pending) > 0 {
			if err := r.send(ctx, number, pending); err != nil {
				return err
			}
			clear(pending)
			pending, size = pending[:0], 0
		}
		if last {
			return nil
		}
	}
}

// read reads a message, and refuses what publishing would refuse, which knows no lines.
func (r *fileRun) read(ctx context.Context, text []byte) (m outbox.Message, err error) {
	if m, err = parseLine(text); err == nil {
		_, err = outbox.Prepare(ctx, m, r.p.maxPayload)
	}
	return m, err
}

// maxBatchBytes of lines end a batch early: PostgreSQL takes no value above 1 GiB, and memory ends too.
const maxBatchBytes = 64 << 20

// maxLine is more than the largest message needs: 64 MiB of payload as base64, headers, key and the rest.
const maxLine = 96 << 20

// readLine reads a line with its end; one that no message needs is not read into memory.
func readLine(reader *bufio.Reader) (text []byte, err error) {
	for {
		part, err := reader.ReadSlice('\n')
		if len(text)+len(part) > maxLine {
			return nil, fmt.Errorf("longer than %d bytes", maxLine)
		}
		if text = append(text, part...); !errors.Is(err, bufio.ErrBufferFull) {
			return text, err
		}
	}
}

// send publishes a batch that ends with the line of that number.
func (r *fileRun) send(ctx context.Context, number int, ms []outbox.Message) error {
	receipts, err := r.p.publish(ctx, ms...)
	if len(refusals(err)) > 0 {
		return failf(exitUsage, "%s:%d-%d: %s", r.name, r.committed+1, number, told(err, lineNames))
	}
	if err != nil {
		return fmt.Errorf("%s:%d-%d: %w", r.name, r.committed+1, number, err)
	}
	r.committed = number
	for _, receipt := range receipts {
		if receipt.Duplicate {
			r.duplicates++
		} else {
			r.published++
		}
	}
	if now := time.Now(); now.After(r.talk) {
		r.app.tell("published %s, %s/s", count(r.published), rate(float64(r.published)/now.Sub(r.began).Seconds()))
		r.talk = now.Add(talkInterval)
	}
	return nil
}

func (r *fileRun) report() error {
	took := time.Since(r.began)
	if r.app.json {
		err := r.app.printJSON(struct {
			Published  int64   `json:"published"`
			Duplicates int64   `json:"duplicates"`
			Seconds    float64 `json:"seconds"`
		}{r.published, r.duplicates, round(took)})
		if err != nil {
			return err
		}
	} else {
		r.app.tell("published %s, duplicates %s, in %s", count(r.published), count(r.duplicates), age(took))
	}
	if r.published+r.duplicates == 0 {
		return failf(exitNothing, "the file holds no message")
	}
	return nil
}
