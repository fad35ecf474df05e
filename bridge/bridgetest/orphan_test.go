package bridgetest_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/bridge/bridgetest"
)

// roleVar makes the test binary play another program.
const roleVar = "BRIDGETEST_ROLE"

var roles = map[string]func(){
	"keeper": keepNode,
	"proxy":  proxy,
}

// keepNode starts a node, prints its address and stops it when its input ends.
func keepNode() {
	node, err := bridgetest.Start(context.Background(), bridgetest.Options{Log: os.Stderr, Private: true})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(node.URL())
	_, _ = io.Copy(io.Discard, os.Stdin)
	node.Stop()
}

func TestNodeEndsWithAProcessThatIsKilled(t *testing.T) {
	tmp := openDir(t)
	k := keeper(t, tmp, nil)
	require.NotEmpty(t, processesWith(t, tmp))
	files := owners(t, tmp)
	require.Len(t, files, 1)

	require.NoError(t, k.cmd.Process.Kill())

	require.Error(t, k.cmd.Wait())
	require.Eventually(t, func() bool { return len(processesWith(t, tmp)) == 0 },
		5*time.Second, 10*time.Millisecond)

	t.Run("and the next start deletes its files, but those of a living process never", func(t *testing.T) {
		living := keeper(t, tmp, nil)
		for _, file := range owners(t, tmp) {
			require.NoError(t, os.Chtimes(file, time.Time{}, time.Now().Add(-time.Hour)))
		}
		t.Setenv("TMPDIR", tmp)

		start(t, private)

		require.NoFileExists(t, files[0])
		require.Len(t, owners(t, tmp), 2)
		living.end(t)
		require.Len(t, owners(t, tmp), 1)
	})
}

func TestNodeOfAUserWithoutRights(t *testing.T) {
	tmp := openDir(t)
	var nobody *syscall.SysProcAttr // whoever runs the tests, unless root
	if os.Geteuid() == 0 {
		nobody = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	k := keeper(t, tmp, nobody)
	channel(t, k.url)
	k.end(t)
	require.Empty(t, owners(t, tmp))
}

// openDir is a temporary folder that other users can use too.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "bridgetest-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o777))
	return dir
}

func owners(t *testing.T, tmp string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(tmp, "tidings-rabbitmq-*", "owner"))
	require.NoError(t, err)
	return files
}

// keeperProcess is a process that keeps a node.
type keeperProcess struct {
	cmd   *exec.Cmd
	input io.Closer
	url   string
}

// keeper starts a process that keeps a node below tmp.
func keeper(t *testing.T, tmp string, attr *syscall.SysProcAttr) *keeperProcess {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), copySelf(t, tmp))
	cmd.Env = append(os.Environ(), roleVar+"=keeper", "TMPDIR="+tmp)
	cmd.Dir, cmd.SysProcAttr, cmd.Stderr = tmp, attr, t.Output()
	input, err := cmd.StdinPipe()
	require.NoError(t, err)
	output, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	url, err := bufio.NewReader(output).ReadString('\n')
	require.NoError(t, err)
	return &keeperProcess{cmd: cmd, input: input, url: url[:len(url)-1]}
}

// end lets the process stop its node and leave.
func (k *keeperProcess) end(t *testing.T) {
	t.Helper()
	require.NoError(t, k.input.Close())
	require.NoError(t, k.cmd.Wait())
}

// copySelf copies the test binary to where other users can run it.
func copySelf(t *testing.T, dir string) string {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	code, err := os.ReadFile(self)
	require.NoError(t, err)
	path := filepath.Join(dir, "self")
	if _, err := os.Stat(path); err != nil {
		require.NoError(t, os.WriteFile(path, code, 0o755))
	}
	return path
}

// proxy listens on the address in its last argument and passes everything on to PROXY_TO.
func proxy() {
	listener, err := net.Listen("tcp", os.Args[len(os.Args)-1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		go pass(client)
	}
}

func pass(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", os.Getenv("PROXY_TO"))
	if err != nil {
		return
	}
	defer server.Close()
	go func() { _, _ = io.Copy(server, client) }()
	_, _ = io.Copy(client, server)
}
