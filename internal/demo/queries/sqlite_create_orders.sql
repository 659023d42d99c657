-- The application's own table.
create table orders (
    number    integer primary key,
    customer  text not null,
    placed_at text not null default current_timestamp
)
