package webhook

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// Defaults and limits.
const (
	DefaultTimeout     = 30 * time.Second
	DefaultMaxResponse = 64 << 10
	DefaultUserAgent   = "Tidings"

	// IdleTimeout is how long a connection is kept for the next request. Servers
	// that close idle connections earliest do so after five seconds.
	IdleTimeout = 4 * time.Second

	maxIdlePerHost    = 512
	maxResponseHeader = 64 << 10
)

// Config configures a sender. Secrets is needed; the zero value of every other
// field works.
type Config struct {
	// Secrets sign: "whsec_" and 24 to 64 bytes in base64. With several, each
	// request carries a signature by each, so that receivers can change over.
	// [NewSecret] makes one.
	Secrets []string

	// AllowPrivate lets requests go to every address: loopback, private networks,
	// link-local (on which clouds serve credentials) and the like.
	AllowPrivate bool
	// AllowedCIDRs lets them go to these ones of them.
	AllowedCIDRs []netip.Prefix

	// Timeout bounds one call, as the context does. DefaultTimeout if zero.
	Timeout time.Duration
	// MaxResponse is how many bytes of an answer's body are read, to be thrown
	// away. The connection of a longer answer is closed. DefaultMaxResponse if zero.
	MaxResponse int64
	// CAFile is a PEM file of authorities to trust beside the system's.
	CAFile string
	// UserAgent is DefaultUserAgent if empty.
	UserAgent string
}

// New returns a sender, or everything that is wrong with the configuration.
func New(c Config) (*Sender, error) {
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.MaxResponse == 0 {
		c.MaxResponse = DefaultMaxResponse
	}
	if c.UserAgent == "" {
		c.UserAgent = DefaultUserAgent
	}
	signers, secretErr := newSigners(c.Secrets)
	roots, rootErr := trusted(c.CAFile)
	if err := errors.Join(secretErr, rootErr, c.validate()); err != nil {
		return nil, fmt.Errorf("webhook configuration: %w", err)
	}
	s := &Sender{c: c, signers: signers}
	s.life, s.end = context.WithCancel(context.Background())
	s.transport = s.newTransport(roots)
	return s, nil
}

func (c Config) validate() error {
	var errs []error
	if c.Timeout < 0 {
		errs = append(errs, fmt.Errorf("timeout: %s is negative", c.Timeout))
	}
	if c.MaxResponse < 0 {
		errs = append(errs, fmt.Errorf("max response: %d is negative", c.MaxResponse))
	}
	if !validValue(c.UserAgent) {
		errs = append(errs, errors.New("user agent: control characters are not allowed"))
	}
	for _, p := range c.AllowedCIDRs {
		if !p.IsValid() {
			errs = append(errs, errors.New("allowed CIDRs: one of them is not valid"))
		}
	}
	return errors.Join(errs...)
}

const secretPrefix = "whsec_"

// NewSecret returns a random secret of 32 bytes.
func NewSecret() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the process instead
	return secretPrefix + base64.StdEncoding.EncodeToString(b[:])
}

// newSigners never puts a secret into its error.
func newSigners(secrets []string) ([]*standardwebhooks.Webhook, error) {
	if len(secrets) == 0 {
		return nil, errors.New("secrets: at least one is needed to sign with")
	}
	var signers []*standardwebhooks.Webhook
	for i, secret := range secrets {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, secretPrefix))
		if err != nil || len(key) < 24 || len(key) > 64 {
			return nil, fmt.Errorf("secrets: number %d is not %q and 24 to 64 bytes in base64", i+1, secretPrefix)
		}
		signer, err := standardwebhooks.NewWebhookRaw(key)
		if err != nil {
			return nil, fmt.Errorf("secrets: number %d: %w", i+1, err)
		}
		signers = append(signers, signer)
	}
	return signers, nil
}

// trusted returns the authorities to trust; nil stands for the system's.
func trusted(caFile string) (*x509.CertPool, error) {
	if caFile == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("CA file: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("CA file %s holds no certificate in PEM", caFile)
	}
	return pool, nil
}

func (s *Sender) newTransport(roots *x509.CertPool) *http.Transport {
	dialer := &net.Dialer{Timeout: s.c.Timeout, ControlContext: guard{s.c.AllowPrivate, s.c.AllowedCIDRs}.control}
	only1 := new(http.Protocols)
	only1.SetHTTP1(true)
	return &http.Transport{
		DialContext:            s.dial(dialer),
		TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    s.c.Timeout,
		MaxIdleConnsPerHost:    maxIdlePerHost,
		IdleConnTimeout:        IdleTimeout,
		MaxResponseHeaderBytes: maxResponseHeader,
		DisableCompression:     true,
		Protocols:              only1,
	}
}
