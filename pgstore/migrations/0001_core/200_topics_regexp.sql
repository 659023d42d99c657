-- A topic set, [{"pattern": "a.>", "in": true}, …], as one regular expression: the first pattern that covers
-- a topic decides, so a pattern that is "in" matches only where no earlier one that is not "in" does.
-- Null: no topic. Empty: every topic, so that callers can skip the match.
create function outbox.topics_regexp(topics jsonb) returns text
language sql immutable parallel safe
as $$
    with pattern as (
        select p.n, (p.value ->> 'in')::boolean as included, p.value ->> 'pattern' as name,
               replace(replace(replace(p.value ->> 'pattern', '.', '\.'), '*', '[^.]+'), '>', '.+') as re
        from jsonb_array_elements(topics) with ordinality p(value, n)
    ), alternative as (
        select i.n, i.name, i.re,
               (select string_agg(o.re, '|' order by o.n) from pattern o where o.n < i.n and not o.included) as but
        from pattern i
        where i.included
    )
    select case when bool_or(a.name = '>' and a.but is null) then ''
           else '^(?:' || string_agg(coalesce('(?!(?:' || a.but || ')$)', '') || a.re, '|' order by a.n) || ')$' end
    from alternative a
$$;
