-- Which of these names belong to no table, view or index.
select coalesce(group_concat(n.value, ', '), '')
from json_each(?1) n
where n.value not in (select s.name from sqlite_schema s)
