-- Those that a live relay holds.
select h.seq from outbox_held h where h.seq in (select value from json_each(?1)) and h.live
