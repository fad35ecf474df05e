//go:build !linux

package bridgetest

import "syscall"

func attachedToUs(syscall.Signal) *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
