package config

import (
	"crypto/tls"
	"errors"
	"fmt"
)

// FollowerUser is the name with which other programs connect to nats.listen.
const FollowerUser = "follower"

// ServerTLS is the certificate that a listener shows. Without it nothing is
// encrypted.
type ServerTLS struct {
	CertFile string `yaml:"cert_file,omitempty"` // PEM, with the chain behind it
	KeyFile  string `yaml:"key_file,omitempty"`
}

// Config reads the files. It returns nil if there is no certificate. Its errors
// begin with the key that is to blame, as seen from tls.
func (t ServerTLS) Config() (*tls.Config, error) {
	switch {
	case t == (ServerTLS{}):
		return nil, nil
	case t.KeyFile == "":
		return nil, errors.New("key_file is missing: cert_file is nothing without its key")
	case t.CertFile == "":
		return nil, errors.New("cert_file is missing: key_file is nothing without its certificate")
	}
	own, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("%s with the key %s: %w", t.CertFile, t.KeyFile, err)
	}
	return &tls.Config{Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12}, nil
}

func (n NATS) validateFollowers(ps *Problems) {
	if n.Listen == "" {
		n.validateNoFollowers(ps)
		return
	}
	listenHost(ps, "nats.listen", n.Listen)
	if n.URL != "" {
		ps.add("nats.listen", "is where the server in this process listens, and nats.url names another: remove one of the two")
	}
	switch {
	case n.FollowerPassword == "":
		ps.add("nats.listen", "lets nobody in: set nats.follower_password or nats.follower_password_file")
	case len(n.FollowerPassword) < 16:
		ps.add("nats.follower_password", "is shorter than 16 characters, so it can be guessed")
	}
	if _, err := n.TLS.Config(); err != nil {
		ps.add("nats.tls", "%s", err)
	}
}

// validateNoFollowers refuses what would be of no effect.
func (n NATS) validateNoFollowers(ps *Problems) {
	if n.FollowerPassword != "" {
		ps.add("nats.follower_password", "is for followers, and there are none: set nats.listen, or remove it")
	}
	if n.TLS != (ServerTLS{}) {
		ps.add("nats.tls", "is for followers, and there are none: set nats.listen, or remove it")
	}
}
