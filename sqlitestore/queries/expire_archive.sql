-- What ended at a time or before, the oldest first.
delete from outbox_archive
where rowid in (select a.rowid from outbox_archive a where a.ended_at <= ?1 order by a.ended_at limit ?2)
