drop trigger demo_hold
