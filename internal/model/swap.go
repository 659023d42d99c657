package model

// swapped is the state with the processes in each other's place, and with it their relays' numbers: those of the first are
// odd.
func (s *State) swapped() State {
	o := *s
	o.processes[0], o.processes[1] = s.processes[1], s.processes[0]
	for p := range o.processes {
		o.processes[p].relay = other(o.processes[p].relay)
	}
	for _, l := range []*ledger{&o.ledger, &o.disk.ledger} {
		l.relays = pairs(l.relays)
		for i := range l.claims {
			l.claims[i].relay = other(l.claims[i].relay)
		}
	}
	o.lapsed = pairs(o.lapsed)
	for i := range o.fates {
		o.fates[i].holder = other(o.fates[i].holder)
	}
	return o
}

// other is the relay of the other process with as many before it.
func other(relay uint8) uint8 {
	if relay == 0 {
		return 0
	}
	return (relay - 1) ^ 1 + 1
}

// pairs swaps the bits of each pair.
func pairs(relays set) set {
	const odd = 0x55
	return relays&odd<<1 | relays>>1&odd
}
