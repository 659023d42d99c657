//go:build !linux

package demo

import "syscall"

// procAttr keeps the terminal's signals from a relay.
func procAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
