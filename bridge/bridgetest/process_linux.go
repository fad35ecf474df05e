package bridgetest

import "syscall"

func attachedToUs(orphaned syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: orphaned}
}
