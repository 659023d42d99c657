-- Tables and views that have names of the outbox's.
select coalesce(group_concat(s.name, ', '), '')
from sqlite_schema s
where s.name in (select value from json_each(?1))
