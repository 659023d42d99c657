-- For the queries of operators, which must not depend on statistics either.
select outbox.plan_settings()
