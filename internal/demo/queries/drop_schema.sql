drop schema if exists demo cascade
