-- What the stream publishes: new rows of message. Made before the slot, which could not decode it otherwise.
do $$
declare
    v_name text := left('outbox_' || 'outbox', 63);
begin
    if exists (select from pg_publication p where p.pubname = v_name) then
        execute format('alter publication %I add table outbox.message', v_name);
    else
        execute format('create publication %I for table outbox.message with (publish = ''insert'')', v_name);
    end if;
end
$$
