-- What a migration changes, against everybody else; its tables are put in the place of the one here. Partitions go with theirs.
lock table outbox.message in access exclusive mode
