package bridgetest

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// process is a child that ends with us.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed when it has ended
}

// spawn starts cmd with its output appended to out. It runs in a session of its own, out of reach
// of the terminal's Ctrl-C: when it ends is for its owner to say. If we die first, it gets the
// signal orphaned (on Linux).
//
// The system sends that signal when the thread that started the child ends, not the process. So one
// goroutine holds on to its thread from the start of the child to its end.
func spawn(cmd *exec.Cmd, out *os.File, orphaned syscall.Signal) (*process, error) {
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = attachedToUs(orphaned)
	p := &process{cmd: cmd, exited: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
			close(p.exited)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// kill ends the process at once and waits until it is gone. It may be called on nil, and twice.
func (p *process) kill() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	<-p.exited
}
