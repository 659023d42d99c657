package devservices

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// Account is the system account that a server runs under: this process's own, or an unprivileged one when this process
// is root, because servers such as PostgreSQL refuse to run as root.
type Account struct {
	UID, GID uint32

	change bool
}

// ServiceAccount picks the account: the first of the names that exists when this process is root, else its own.
func ServiceAccount(names ...string) (Account, error) {
	own := Account{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}
	if own.UID != 0 {
		return own, nil
	}
	for _, name := range names {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if uidErr == nil && gidErr == nil && uid != 0 {
			return Account{UID: uint32(uid), GID: uint32(gid), change: true}, nil
		}
	}
	return Account{}, fmt.Errorf("no unprivileged account: none of %q exists, and a server does not run as root", names)
}

func (a Account) procAttr() *syscall.SysProcAttr {
	if !a.change {
		return &syscall.SysProcAttr{}
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: a.UID, Gid: a.GID}}
}

// Owns reports whether the path is a folder of the account that nobody else may write to or list.
func (a Account) Owns(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() || info.Mode().Perm()&0o077 != 0 {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Uid == a.UID
}
