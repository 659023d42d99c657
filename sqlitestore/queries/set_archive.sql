insert into outbox_setting (name, value) values ('archive', ?1)
on conflict (name) do update set value = excluded.value where value <> excluded.value
