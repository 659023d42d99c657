-- The table that the application changes in the transactions that publish.
create table outbox.account (id int primary key, balance bigint not null default 0) with (fillfactor = 50);
insert into outbox.account (id) select generate_series(0, 7999);
