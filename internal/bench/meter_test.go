package bench

import (
	"testing"
	"time"
)

func TestUsageFigures(t *testing.T) {
	u := Usage{Took: 2 * time.Second, serverCPU: -1, others: -1, clientCPU: time.Second, wal: 5000, statements: 20, roundTrips: 10,
		connections: 4, heap: 3 << 20, rss: -1, calls: counters{claims: 2, claimMillis: 5, deadRows: 3000}}
	want := map[string]string{"PG CPU s/100k": "–", "client CPU s/100k": "100", "WAL B/msg": "5.00", "dead rows/msg": "3.00",
		"statements/1k": "20.0", "round trips/1k": "10.0", "conns": "4.00", "others' CPU %": "–", "claims/1k": "2.00", "claim ms": "2.50",
		"settle ms": "–", "PG CPU %": "–", "client CPU %": "50.0", "WAL B/s": "2500", "dead rows/s": "1500", "claims/s": "1.00",
		"heap MiB": "3.00", "RSS MiB": "–"}
	all := append(append(append(u.Figures(1000), u.CallFigures(1000)...), u.IdleFigures()...), u.MemoryFigures()...)
	for _, f := range all {
		if got := Cell(Number(f.Value), true); got != want[f.Name] {
			t.Errorf("%s = %s, want %s", f.Name, got, want[f.Name])
		}
	}
}
