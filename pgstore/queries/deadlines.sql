-- Server-side deadlines to the end of the transaction: the client's are the last resort, they cost the connection.
select set_config('statement_timeout', $1, true), set_config('lock_timeout', $2, true),
       set_config('idle_in_transaction_session_timeout', $2, true)
