insert into orders (number, customer) values (?1, ?2)
