package demo

import "syscall"

// procAttr keeps the terminal's signals from a relay, and ends it with this process however that ends.
func procAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
