select backend, mark, writers, ended, keys, lowest from outbox.below_mark($1, $2, $3, $4, $5, $6, $7)
