package sqlitestore

import (
	"database/sql"
	"slices"

	"github.com/outboxrelay/outbox"
)

// strandedBound is where counting ends, for each destination and topic.
const strandedBound = 1000

// stranded adds the messages that are bound to where no live relay would take them.
func (t *tx) stranded(st *outbox.Status, f *fleet) error {
	const most = 100 // pairs of a destination and a topic
	type pair struct{ destination, topic string }
	var lost []pair
	err := t.rows("status_stranded", nil, func(rows *sql.Rows) error {
		var p pair
		err := rows.Scan(&p.destination, &p.topic)
		if err == nil && len(lost) < most && len(f.destinationsOf(p.topic, p.destination)) == 0 {
			lost = append(lost, p)
		}
		return err
	})
	if err != nil || len(f.relays) == 0 {
		return err
	}
	for _, p := range lost {
		n, err := t.depth("bound", strandedBound, p.destination, p.topic)
		if err != nil {
			return err
		}
		known := slices.ContainsFunc(f.relays, func(lanes map[string]laneDoc) bool { _, has := lanes[p.destination]; return has })
		st.AddStranded(p.destination, p.topic, known, n)
	}
	return nil
}
