package embedded

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"tidings/streams"
)

// Followers says where other programs may follow OUTCOMES, and who they are. All
// fields but TLS are required.
//
// They see that stream and nothing else of this server, and can change nothing in
// it: they are in an account of their own that has no JetStream and no stream, and
// what of JetStream's API reaches them is a list of requests that read. Consumers
// are made for them, by this process, from those parts of what they ask for that
// cannot do harm.
type Followers struct {
	Listen   string // host:port; port 0 takes a free one
	User     string
	Password string
	TLS      *tls.Config // nil: none
}

// What followers can use up.
const (
	maxFollowers = 32       // connections
	maxConns     = 256      // of all kinds, those without the password too
	maxPending   = 24 << 20 // bytes that wait for a follower who does not read: more than one entry
	maxSubs      = 4096     // of one connection
	authTimeout  = 2        // seconds
	openWait     = 5 * time.Second
	// How long the server remembers whom an answer is for, after the request or the
	// answer before: some 800 bytes each.
	readWait = 2 * time.Second
	pullWait = maxExpiry + 5*time.Second
)

// Names of the accounts and of this process in them.
const (
	followersAccount = "FOLLOWERS"
	ownUser          = "tidings"
	proxyUser        = "tidings-proxy"
)

// gate lets in this process, by a secret that it made up, and followers, by
// theirs.
type gate struct {
	followers Followers
	secret    string
	account   atomic.Pointer[server.Account] // nil: no follower yet
}

func newGate(f Followers) (*gate, error) {
	if f.User == "" || f.Password == "" {
		return nil, errors.New("followers need a user and a password")
	}
	return &gate{followers: f, secret: rand.Text()}, nil
}

// apply sets what the server must know before it starts. It does not listen yet.
func (g *gate) apply(so *server.Options) error {
	host, portText, err := net.SplitHostPort(g.followers.Listen)
	if err != nil {
		return fmt.Errorf("listen on %q: %w", g.followers.Listen, err)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return fmt.Errorf("listen on %q: the port is not a number", g.followers.Listen)
	}
	so.Host, so.Port = host, int(port)
	if port == 0 {
		so.Port = server.RANDOM_PORT
	}
	so.CustomClientAuthentication = g
	so.MaxConn, so.MaxPending, so.MaxSubs, so.AuthTimeout = maxConns, maxPending, maxSubs, authTimeout
	if g.followers.TLS != nil {
		so.TLSConfig, so.TLS = g.followers.TLS, true
	}
	return nil
}

// Check implements server.Authentication. Who is not registered elsewhere is in
// the account of the streams, so nobody is let in but by one of these cases.
func (g *gate) Check(c server.ClientAuthentication) bool {
	o, account := c.GetOpts(), g.account.Load()
	is := func(user, password string) bool { return same(o.Username, user) && same(o.Password, password) }
	switch {
	case c.Kind() != server.CLIENT:
		return false
	case is(ownUser, g.secret):
		return true
	case account == nil:
		return false
	case is(proxyUser, g.secret):
		c.RegisterUser(&server.User{Username: proxyUser, Account: account})
		return true
	case is(g.followers.User, g.followers.Password) && account.NumLocalConnections() <= maxFollowers:
		c.RegisterUser(&server.User{Username: g.followers.User, Account: account, Permissions: readOnly()})
		return true
	}
	return false
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// readOnly returns what a follower may say. What is missing from it is what
// writes, and what tells of other consumers than one's own.
func readOnly() *server.Permissions {
	return &server.Permissions{
		Publish: &server.SubjectPermission{Allow: []string{
			streamInfoAPI, messageAPI, directAPI, directAPI + ".>",
			createAPI, createAPI + ".>", consumerAPI + "*", deleteAPI + "*", nextAPI,
		}},
		Subscribe: &server.SubjectPermission{Allow: []string{nats.InboxPrefix + ">"}},
	}
}

// OpenFollowers opens the door for followers. The streams must be there. It
// returns an error if the address cannot be listened on; ctx bounds the opening.
// It may be called once, and needs [Options].Followers.
func (s *Server) OpenFollowers(ctx context.Context) error {
	if s.gate == nil {
		return errors.New("open to followers: the server was started without")
	}
	ctx, cancel := context.WithTimeout(ctx, openWait)
	defer cancel()
	if err := s.openFollowers(ctx); err != nil {
		return fmt.Errorf("open to followers on %s: %w", s.gate.followers.Listen, err)
	}
	return nil
}

func (s *Server) openFollowers(ctx context.Context) error {
	account, err := s.ns.RegisterAccount(followersAccount)
	if err != nil {
		return err
	}
	if err := share(s.ns.GlobalAccount(), account); err != nil {
		return err
	}
	s.gate.account.Store(account)
	own, err := s.Connect("tidings proxy")
	if err != nil {
		return err
	}
	s.conns = append(s.conns, own)
	outside, err := s.connect("tidings proxy", proxyUser)
	if err != nil {
		return err
	}
	s.conns = append(s.conns, outside)
	if err := newProxy(own, outside, s.logger).open(ctx); err != nil {
		return err
	}
	return s.listen()
}

// share lets an account read entries and pull from consumers, without a detour:
// what the server answers to it there keeps its subject.
func share(from, to *server.Account) error {
	for subject, wait := range map[string]time.Duration{directAPI: readWait, directAPI + ".>": readWait, nextAPI: pullWait} {
		if err := from.AddServiceExportWithResponse(subject, server.Streamed, []*server.Account{to}); err != nil {
			return err
		}
		if err := from.SetServiceExportResponseThreshold(subject, wait); err != nil {
			return err
		}
		if err := to.AddServiceImport(from, subject, subject); err != nil {
			return err
		}
	}
	return nil
}

// listen is what the server does when it starts, unless it is told not to.
func (s *Server) listen() error {
	bound := make(chan struct{})
	go s.ns.AcceptLoop(bound)
	<-bound
	select {
	case reason := <-s.fatal:
		return errors.New(reason)
	default:
	}
	s.working.Go(func() { s.pace(s.stopped) })
	s.logger.Info("followers are served", "url", s.ClientURL(), "tls", s.gate.followers.TLS != nil)
	if addr, ok := s.ns.Addr().(*net.TCPAddr); ok && !addr.IP.IsLoopback() && s.gate.followers.TLS == nil {
		s.logger.Warn("other machines can reach where followers connect, and nothing is encrypted: set a certificate", "address", addr.String())
	}
	return nil
}

// connect returns a connection within the process as one of its users.
func (s *Server) connect(name, user string) (*nats.Conn, error) {
	options := append(streams.ConnectOptions(name, s.logger), nats.InProcessServer(s), nats.Timeout(openWait))
	if s.gate != nil {
		options = append(options, nats.UserInfo(user, s.gate.secret))
	}
	nc, err := nats.Connect("", options...)
	if err != nil {
		return nil, fmt.Errorf("connect to embedded nats-server: %w", err)
	}
	return nc, nil
}
