-- The application's own table. "demo" stands for the schema, which goes when the demo ends.
create table demo.orders (
    number bigint primary key,
    customer text not null,
    placed_at timestamptz not null default clock_timestamp()
)
