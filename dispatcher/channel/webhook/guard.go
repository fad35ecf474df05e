package webhook

import (
	"context"
	"fmt"
	"net/netip"
	"syscall"
)

const codePrivateAddress = "private_address"

// blockedError says that an address is not to be called.
type blockedError struct{ addr netip.Addr }

func (e *blockedError) Error() string {
	return fmt.Sprintf("the host resolves to %s, which is not a public address: allow its network if that is meant", e.addr)
}

// guard decides which addresses may be called.
type guard struct {
	all     bool
	allowed []netip.Prefix
}

// control is called by the dialer with the address it is about to connect to.
func (g guard) control(_ context.Context, _, address string, _ syscall.RawConn) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("read the address to connect to: %w", err)
	}
	if !g.permits(target.Addr()) {
		return &blockedError{target.Addr()}
	}
	return nil
}

func (g guard) permits(addr netip.Addr) bool {
	if g.all {
		return true
	}
	addr = addr.Unmap()
	for _, p := range g.allowed {
		if p.Contains(addr.WithZone("")) {
			return true
		}
	}
	return public(addr)
}

// public reports whether addr is one of the public internet. An address that
// carries an IPv4 address is judged by that one, since that is where a
// translator sends it.
func public(addr netip.Addr) bool {
	if addr.Is4() {
		return !within(addr, special4)
	}
	if addr.Zone() != "" {
		return false
	}
	b := addr.As16()
	switch {
	case nat64.Contains(addr):
		return public(netip.AddrFrom4([4]byte(b[12:16])))
	case sixToFour.Contains(addr):
		return public(netip.AddrFrom4([4]byte(b[2:6])))
	}
	return globalUnicast.Contains(addr) && !within(addr, special6)
}

func within(addr netip.Addr, prefixes []netip.Prefix) bool {
	for _, p := range prefixes {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// The special-purpose registries of IANA, read-only after initialisation.
var (
	special4 = prefixes(
		"0.0.0.0/8",       // this network, the unspecified address
		"10.0.0.0/8",      // private
		"100.64.0.0/10",   // shared by carriers
		"127.0.0.0/8",     // loopback
		"169.254.0.0/16",  // link-local, metadata services
		"172.16.0.0/12",   // private
		"192.0.0.0/24",    // protocol assignments
		"192.0.2.0/24",    // documentation
		"192.88.99.0/24",  // 6to4 relays
		"192.168.0.0/16",  // private
		"198.18.0.0/15",   // benchmarks
		"198.51.100.0/24", // documentation
		"203.0.113.0/24",  // documentation
		"224.0.0.0/4",     // multicast
		"240.0.0.0/4",     // reserved, broadcast
	)
	special6 = prefixes(
		"2001::/23",     // protocol assignments, Teredo
		"2001:db8::/32", // documentation
		"3fff::/20",     // documentation
	)
	// globalUnicast is all that is public in IPv6; what is outside of it (loopback,
	// link-local, unique local, multicast, mapped and translated forms) is not.
	globalUnicast = netip.MustParsePrefix("2000::/3")
	nat64         = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour     = netip.MustParsePrefix("2002::/16")
)

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, s := range list {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}
