-- Delivered messages cannot be deleted until this transaction ends; claims and publishing do not notice.
select from demo.message for key share
