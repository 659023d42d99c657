drop schema outbox cascade;
do $$
begin
    execute format('drop publication if exists %I', left('outbox_' || 'outbox', 63));
end
$$;
