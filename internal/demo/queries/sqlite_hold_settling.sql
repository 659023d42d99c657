-- Delivered messages cannot be deleted until the trigger is gone; claims and publishing do not notice.
create trigger demo_hold before delete on outbox_message
begin
    select raise(abort, 'the demo keeps relays from settling');
end
