-- The messages among them that a filter means, and whether a live relay holds each. Age counts from the death of a dead
-- one, from the publishing of any other. A scheduled message keeps its time unless it is named.
select m.seq, exists (select 1 from outbox_held h where h.seq = m.seq and h.live)
from outbox_messages m
where m.state = ?1 and m.seq > ?2 and m.seq <= ?3
  and (?4 is null or m.id in (select value from json_each(?4)))
  and (?5 is null or m.topic in (select value from json_each(?5)))
  and (?6 is null or m.key = ?6)
  and (?7 is null or m.error_class = ?7)
  and (?8 is null or instr(m.last_error, ?8) > 0)
  and (?9 is null or case m.state when 'dead' then m.at else m.published_at end <= ?9)
  and (?10 is null or case m.state when 'dead' then m.at else m.published_at end > ?10)
  and (?11 <> 'retry' or m.due_at > ?12 and (m.attempts > 0 or ?4 is not null))
order by m.seq
limit ?13
