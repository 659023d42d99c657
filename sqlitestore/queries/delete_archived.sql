delete from outbox_archive
where rowid in (select a.rowid from json_each(?1) e
                cross join outbox_archive a on a.seq = e.value ->> 'seq' and a.generation = e.value ->> 'generation')
