-- Completes each lane of a relay with its topic sets as regular expressions.
create function outbox.lane_regexps(lanes jsonb) returns jsonb
language sql immutable
as $$
    select coalesce(jsonb_object_agg(l.key, l.value || jsonb_build_object(
               'take', outbox.topics_regexp(l.value -> 'topics'),
               'free', outbox.topics_regexp(l.value -> 'unordered'))), '{}')
    from jsonb_each(lanes) l
$$;
