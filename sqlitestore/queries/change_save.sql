update outbox_operation
set cursor = ?2, state = ?3, matched = ?4, changed = ?5, held = ?6, bare = ?7, finished_at = case when ?3 <> 'running' then ?8 end
where id = ?1
