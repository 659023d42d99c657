insert into demo.orders (number, customer) values ($1, $2)
