package bridgetest_test

import (
	"bytes"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/bridge/bridgetest"
)

func TestPrivateNodeKeepsToItself(t *testing.T) {
	shared := bridgetest.Private(t)
	// Held by us or by a system node: taken either way.
	for _, address := range []string{"127.0.0.1:5672", "127.0.0.1:4369", "127.0.0.1:25672"} {
		if l, err := net.Listen("tcp", address); err == nil {
			defer l.Close()
		}
	}
	t.Setenv("RABBITMQ_NODENAME", "system@nowhere.invalid")
	t.Setenv("RABBITMQ_NODE_PORT", "5672")
	t.Setenv("RABBITMQ_MNESIA_BASE", "/proc")
	t.Setenv("RABBITMQ_CONF_ENV_FILE", script(t, t.TempDir(), "env.conf", "NODE_PORT=5672\nMNESIA_BASE=/proc\n"))
	t.Setenv("RABBITMQ_SERVER_START_ARGS", "-boot nonsense")
	t.Setenv("ERL_EPMD_PORT", "4369")
	t.Setenv("HOME", "/proc")

	node := start(t, private)

	t.Run("whatever the environment says of the system's node", func(t *testing.T) {
		name, err := node.Ctl(t.Context(), "eval", "node().")
		require.NoError(t, err)
		require.Equal(t, "tidings@localhost\n", name)
	})
	t.Run("beside another private node", func(t *testing.T) {
		require.NotEqual(t, shared.URL(), node.URL())
		declare(t, channel(t, shared.URL()), "only-here")
		_, err := channel(t, node.URL()).QueueDeclarePassive("only-here", true, false, false, false, nil)
		require.ErrorContains(t, err, "NOT_FOUND")
	})
}

func TestPrivateNodeListensOnLoopbackOnly(t *testing.T) {
	node := bridgetest.Private(t)
	out, err := node.Ctl(t.Context(), "eval",
		"[begin {ok, {A, _}} = inet:sockname(P), A end || P <- erlang:ports(), "+
			"erlang:port_info(P, name) =:= {name, \"tcp_inet\"}, inet:peername(P) =:= {error, enotconn}].")
	require.NoError(t, err)
	require.Equal(t, "[{127,0,0,1},{127,0,0,1}]\n", out, "AMQP and Erlang's own protocol")
}

func TestStartThatFailsSaysWhy(t *testing.T) {
	t.Run("the end of the log is in the error", func(t *testing.T) {
		usePath(t, fakeInstallation(t, "echo BOOM at boot"))
		_, err := bridgetest.Start(t.Context(), private)
		require.ErrorContains(t, err, "it ended while starting")
		require.ErrorContains(t, err, "BOOM at boot")
	})
	t.Run("a port taken by another is tried anew, with other ports", func(t *testing.T) {
		dir := fakeInstallation(t, `echo $RABBITMQ_NODE_PORT >> `+"$(dirname $0)/tries"+`; echo eaddrinuse`)
		usePath(t, dir)
		_, err := bridgetest.Start(t.Context(), private)
		require.ErrorContains(t, err, "a port was taken")
		tries, err := os.ReadFile(filepath.Join(dir, "tries"))
		require.NoError(t, err)
		require.Len(t, strings.Fields(string(tries)), 3)
	})
	t.Run("no way to a RabbitMQ is one sentence that says what to do", func(t *testing.T) {
		dir := t.TempDir()
		script(t, dir, "docker", "echo the daemon does not answer >&2; exit 1")
		usePath(t, dir)
		_, err := bridgetest.Start(t.Context(), private)
		require.ErrorIs(t, err, bridgetest.ErrNoBroker)
		require.NotContains(t, err.Error(), "\n")
	})
}

// There is no engine on every machine, so a script plays its client: it records what it is asked,
// and for a container it passes a port on to a real node.
func TestContainer(t *testing.T) {
	target, err := url.Parse(bridgetest.Private(t).URL())
	require.NoError(t, err)
	dir := t.TempDir()
	asked := filepath.Join(dir, "asked")
	script(t, dir, "docker", `
dir=${0%/*}
echo "$@" >> $dir/asked
case $1 in
run) shift; echo "$5" > $dir/publish; address=${6%:5672}; echo "$address" > $dir/address ;;
esac
case $1 in
exec) echo "output of $*" ;;
--name|start)
	echo $$ > $dir/pid
	read address < $dir/address
	exec `+copySelf(t, dir)+` $address ;;
kill|rm) read pid < $dir/pid; kill $pid ;;
esac`)
	t.Setenv(roleVar, "proxy")
	t.Setenv("PROXY_TO", target.Host)
	usePath(t, dir)
	var log bytes.Buffer

	node, err := bridgetest.Start(t.Context(), bridgetest.Options{Log: &log, Private: true})

	require.NoError(t, err)
	t.Cleanup(node.Stop)
	channel(t, node.URL())
	require.Contains(t, log.String(), "starting a container of rabbitmq:4")
	name := strings.Fields(lines(t, asked)[1])[2]

	t.Run("is steered by rabbitmqctl inside it", func(t *testing.T) {
		out, err := node.Ctl(t.Context(), "stop_app")
		require.NoError(t, err)
		require.Equal(t, "output of exec --interactive "+name+" rabbitmqctl --quiet stop_app\n", out)
	})
	t.Run("is killed and started again", func(t *testing.T) {
		require.NoError(t, node.Kill())
		require.NoError(t, node.Restart(t.Context()))
		channel(t, node.URL())
	})
	t.Run("is removed with its data", func(t *testing.T) {
		node.Stop()
		require.Equal(t, []string{
			"kill " + name, "start --attach " + name, "rm --force --volumes " + name,
		}, lines(t, asked)[3:])
	})
}

// script writes an executable shell script and returns its path.
func script(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755))
	return path
}

// fakeInstallation makes a folder that looks like RabbitMQ's and Erlang's, with a server of our own.
func fakeInstallation(t *testing.T, server string) string {
	t.Helper()
	dir := t.TempDir()
	script(t, dir, "rabbitmq-env", "")
	script(t, dir, "epmd", "exit 0")
	script(t, dir, "rabbitmq-server", server)
	return dir
}

// usePath leaves only the programs in dir to be found, beside what every script needs.
func usePath(t *testing.T, dir string) {
	t.Helper()
	tools := t.TempDir()
	for _, tool := range []string{"dirname", "cat"} {
		require.NoError(t, os.Symlink("/usr/bin/"+tool, filepath.Join(tools, tool)))
	}
	t.Setenv("PATH", dir+":"+tools)
}

func lines(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}
