package webhook

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/dispatcher/channel"
	"tidings/streams/event"
)

func TestGuardPermitsPublicAddressesOnly(t *testing.T) {
	for _, c := range []struct {
		addr   string
		public bool
		what   string
	}{
		{"93.184.216.34", true, "public"},
		{"1.1.1.1", true, "public"},
		{"172.15.255.255", true, "just below private"},
		{"172.32.0.0", true, "just above private"},
		{"2606:4700::1111", true, "public"},
		{"::ffff:93.184.216.34", true, "mapped public"},
		{"64:ff9b::5db8:d822", true, "public through NAT64"},
		{"2002:5db8:d822::1", true, "public through 6to4"},
		{"0.0.0.0", false, "unspecified"},
		{"0.1.2.3", false, "this network"},
		{"127.0.0.1", false, "loopback"},
		{"127.255.255.254", false, "loopback"},
		{"10.0.0.1", false, "private"},
		{"172.16.0.1", false, "private"},
		{"192.168.1.1", false, "private"},
		{"100.64.0.1", false, "shared"},
		{"169.254.169.254", false, "metadata"},
		{"192.0.0.170", false, "protocol assignment"},
		{"192.0.2.1", false, "documentation"},
		{"198.18.0.1", false, "benchmark"},
		{"224.0.0.1", false, "multicast"},
		{"255.255.255.255", false, "broadcast"},
		{"::", false, "unspecified"},
		{"::1", false, "loopback"},
		{"::127.0.0.1", false, "IPv4-compatible"},
		{"::ffff:127.0.0.1", false, "mapped loopback"},
		{"::ffff:10.0.0.1", false, "mapped private"},
		{"::ffff:169.254.169.254", false, "mapped metadata"},
		{"::ffff:0:7f00:1", false, "translated loopback"},
		{"64:ff9b::7f00:1", false, "loopback through NAT64"},
		{"64:ff9b::a00:1", false, "private through NAT64"},
		{"64:ff9b::a9fe:a9fe", false, "metadata through NAT64"},
		{"64:ff9b:1::a00:1", false, "local NAT64"},
		{"2002:7f00:1::", false, "loopback through 6to4"},
		{"2002:a00:1::1", false, "private through 6to4"},
		{"2001:0:1:2:3:4:5:6", false, "Teredo"},
		{"2001:db8::1", false, "documentation"},
		{"fe80::1", false, "link-local"},
		{"fe80::1%eth0", false, "link-local with a zone"},
		{"fec0::1", false, "site-local"},
		{"fc00::1", false, "unique local"},
		{"fd00:ec2::254", false, "metadata"},
		{"ff02::1", false, "multicast"},
		{"100::1", false, "discard"},
	} {
		t.Run(c.addr+" is "+c.what, func(t *testing.T) {
			require.Equal(t, c.public, guard{}.permits(netip.MustParseAddr(c.addr)))
			require.True(t, guard{all: true}.permits(netip.MustParseAddr(c.addr)))
		})
	}
}

func TestGuardPermitsAllowedNetworks(t *testing.T) {
	g := guard{allowed: prefixes("10.1.0.0/16", "fe80::/10", "fd00::/8")}

	for addr, want := range map[string]bool{
		"10.1.2.3": true, "::ffff:10.1.2.3": true, "10.2.0.1": false, "fe80::1%eth0": true,
		"fd12::1": true, "fc12::1": false, "127.0.0.1": false, "1.1.1.1": true,
		"64:ff9b::a01:203": false, // a network is allowed as it is written
	} {
		require.Equal(t, want, g.permits(netip.MustParseAddr(addr)), addr)
	}
}

func TestControlReadsTheAddressOfTheDialer(t *testing.T) {
	var blocked *blockedError
	require.ErrorAs(t, guard{}.control(t.Context(), "tcp4", "127.0.0.1:80", nil), &blocked)
	require.ErrorAs(t, guard{}.control(t.Context(), "tcp6", "[fe80::1%eth0]:80", nil), &blocked)
	require.NoError(t, guard{}.control(t.Context(), "tcp6", "[2606:4700::1111]:443", nil))
	require.Error(t, guard{}.control(t.Context(), "tcp", "no address", nil))
}

func FuzzRetryAfter(f *testing.F) {
	for _, seed := range []string{"", "0", "120", "-1", "1e9", "99999999999999999999", "Wed, 21 Oct 2026 07:28:00 GMT", " 5 "} {
		f.Add(seed)
	}
	now := time.Date(2026, 10, 21, 7, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, value string) {
		after := retryAfter(value, now)
		require.GreaterOrEqual(t, after, time.Duration(0))
		require.LessOrEqual(t, after, channel.MaxAfter)
	})
}

func TestRetryAfterUnderstandsBothForms(t *testing.T) {
	now := time.Date(2026, 10, 21, 7, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"90": 90 * time.Second, " 5 ": 5 * time.Second,
		"Wed, 21 Oct 2026 07:28:00 GMT":     28 * time.Minute,
		"Wednesday, 21-Oct-26 07:28:00 GMT": 28 * time.Minute,
		"Wed, 21 Oct 2026 06:59:59 GMT":     0,
		"Wed, 21 Oct 2037 07:28:00 GMT":     channel.MaxAfter,
		"1.5":                               0, "+5": 0, "0x10": 0, "": 0,
	} {
		require.Equal(t, want, retryAfter(value, now), value)
	}
}

// mute is a connection on which nothing can be written: what a kept one is when
// its end has reached the kernel and not yet the transport. No server can be
// timed to show it.
type mute struct{ net.Conn }

func (mute) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestARequestOfWhichNothingLeftIsTransient(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	s, err := New(Config{Secrets: []string{NewSecret()}, AllowPrivate: true})
	require.NoError(t, err)
	defer s.Close()
	s.transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return &wire{Conn: mute{conn}}, err
	}

	_, err = s.Send(t.Context(), channel.Message{ID: "m-1", To: "http://" + l.Addr().String(), Body: []byte("x")})

	result, code, _ := channel.Classify(err)
	require.Equal(t, event.TryTransient, result, "%v", err)
	require.Equal(t, channel.CodeConnectionLost, code)
}
