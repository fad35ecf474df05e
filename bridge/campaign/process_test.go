package campaign_test

import (
	"encoding/json"
	"net/rpc"
	"net/rpc/jsonrpc"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/bridge"
)

// process is a bridge process.
type process struct {
	site   *site
	cmd    *exec.Cmd
	client *rpc.Client
	ended  chan struct{} // closed when it has
	err    error         // of its end, to be read after that
}

// spawn starts a process on the site. It is the site's from then on.
func (s *site) spawn() {
	s.Helper()
	text, err := json.Marshal(s.settings)
	require.NoError(s, err)
	stderr, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(s, err)
	defer stderr.Close()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childSettings+"="+string(text))
	cmd.Stderr = stderr
	in, err := cmd.StdinPipe()
	require.NoError(s, err)
	out, err := cmd.StdoutPipe()
	require.NoError(s, err)
	require.NoError(s, cmd.Start())
	p := &process{site: s, cmd: cmd, client: jsonrpc.NewClient(pipe{out, in}), ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		p.err = cmd.Wait()
	}()
	s.process = p
	s.Cleanup(p.kill)
}

func (s *site) logFile() string { return filepath.Join(s.settings.Dir, "stderr.log") }

// call asks the process for something.
func (p *process) call(method string, arg, reply any) {
	p.site.Helper()
	require.NoError(p.site, p.client.Call("Child."+method, arg, reply), method)
}

// status returns that of the bridge; not ok before there is one.
func (p *process) status() (status bridge.Status, ok bool) {
	p.site.Helper()
	err := p.client.Call("Child.Status", struct{}{}, &status)
	if err != nil {
		require.EqualError(p.site, err, errStarting.Error())
	}
	return status, err == nil
}

func (p *process) heap() (bytes uint64) {
	p.site.Helper()
	p.call("Heap", struct{}{}, &bytes)
	return bytes
}

func (p *process) stopLog()  { p.site.Helper(); p.call("StopLog", struct{}{}, &struct{}{}) }
func (p *process) startLog() { p.site.Helper(); p.call("StartLog", struct{}{}, &struct{}{}) }

// kill ends the process as an out-of-memory killer would.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
	_ = p.client.Close()
}

// terminate asks the process to end, makes sure that all went well, and returns
// how long it took.
func (p *process) terminate() time.Duration {
	p.site.Helper()
	begin := time.Now()
	require.NoError(p.site, p.cmd.Process.Signal(syscall.SIGTERM))
	<-p.ended
	took := time.Since(begin)
	_ = p.client.Close()
	require.NoError(p.site, p.err, "the process did not end well:\n%s", p.site.said())
	return took
}
