-- Which database this is: the server's identity, the database's and the table's. What was restored from a dump, copied as a
-- template or replicated logically is another one. A physical copy (a base backup, a snapshot of the disk) is not told apart.
create function outbox.home() returns text
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_system text;
begin
    begin
        select c.system_identifier::text into v_system from pg_control_system() c;
    exception when insufficient_privilege then -- where a provider keeps it to itself
        v_system := '?';
    end;
    return format('%s/%s/%s', v_system, (select d.oid from pg_database d where d.datname = current_database()),
                  'outbox.message'::regclass::oid);
end
$$;
comment on function outbox.home() is 'Which database the outbox is in. The setting home says where it was made.';

insert into outbox.setting (name, value) values ('home', outbox.home());
