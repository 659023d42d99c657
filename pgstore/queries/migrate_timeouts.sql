-- A role's or database's default time-outs must neither end a migration nor let it wait for ever. Only for this
-- transaction.
select set_config('statement_timeout', $1::text, true), set_config('lock_timeout', $2::text, true),
    set_config('idle_in_transaction_session_timeout', '0', true), set_config('client_min_messages', 'warning', true)
