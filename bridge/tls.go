package bridge

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"syscall"
	"time"

	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v2/pkg/amqp"
	amqp "github.com/rabbitmq/amqp091-go"
)

// TLS says how the bridge and a broker prove to each other who they are. It is
// for URLs that begin with amqps; they are encrypted, by TLS 1.2 at least, and
// the broker's certificate is verified, also where nothing is set here. The
// files are PEM and are read at every connect, so that new ones are taken
// without a restart. RabbitMQ's query parameters of the URL say the same; in
// both places there must not be two different values.
type TLS struct {
	// CAFile has the authorities that may have signed the broker's certificate,
	// in place of the system's.
	CAFile string `yaml:"ca_file,omitempty"`
	// CertFile is the certificate to show to the broker, and KeyFile its key.
	CertFile string `yaml:"cert_file,omitempty"`
	KeyFile  string `yaml:"key_file,omitempty"`
	// ServerName is the name that the broker's certificate must have, the host
	// of the URL if empty.
	ServerName string `yaml:"server_name,omitempty"`
}

// parameter is one setting in its two forms.
type parameter struct {
	key   string  // in the configuration
	name  string  // in the query of a URL
	value *string // in TLS
}

func (t *TLS) parameters() []parameter {
	return []parameter{
		{"ca_file", "cacertfile", &t.CAFile},
		{"cert_file", "certfile", &t.CertFile},
		{"key_file", "keyfile", &t.KeyFile},
		{"server_name", "server_name_indication", &t.ServerName},
	}
}

// Address returns the URL with the settings of TLS in its query.
func (c Config) Address() string {
	u, err := url.Parse(c.URL)
	if err != nil || c.TLS == (TLS{}) {
		return c.URL
	}
	query := u.Query()
	for _, p := range c.TLS.parameters() {
		if *p.value != "" {
			query.Set(p.name, *p.value)
		}
	}
	u.RawQuery = query.Encode()
	return u.String()
}

// validate says what of TLS cannot be meant, alone or beside an AMQP address.
func (t TLS) validate(address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return nil // that is said of the URL
	}
	query := u.Query()
	var errs []error
	for _, p := range t.parameters() {
		if said := query.Get(p.name); said != "" && *p.value != "" && said != *p.value {
			errs = append(errs, fmt.Errorf("tls.%s: the URL has another %s: remove one of the two", p.key, p.name))
		} else if said != "" {
			*p.value = said
		}
	}
	switch {
	case errs != nil || t == (TLS{}):
	case u.Scheme == "amqp":
		errs = append(errs, errors.New("tls: a URL that begins with amqp:// is not encrypted: write amqps://, or remove what is set for TLS"))
	default:
		_, err := t.client()
		return err
	}
	return errors.Join(errs...)
}

// client reads the files. Its errors begin with the key that is to blame.
func (t TLS) client() (*tls.Config, error) {
	c := &tls.Config{ServerName: t.ServerName, MinVersion: tls.VersionTLS12}
	if t.CAFile != "" {
		data, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("tls.ca_file: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("tls.ca_file: %s holds no certificate in PEM", t.CAFile)
		}
	}
	switch {
	case t.CertFile == "" && t.KeyFile == "":
		return c, nil
	case t.KeyFile == "":
		return nil, errors.New("tls.key_file: is missing: tls.cert_file is nothing without its key")
	case t.CertFile == "":
		return nil, errors.New("tls.cert_file: is missing: tls.key_file is nothing without its certificate")
	}
	own, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("tls.cert_file: %s with the key %s: %w", t.CertFile, t.KeyFile, err)
	}
	c.Certificates = []tls.Certificate{own}
	return c, nil
}

// secured returns c with the certificates that its URL names, read anew.
func secured(c wamqp.ConnectionConfig) (wamqp.ConnectionConfig, error) {
	uri, err := amqp.ParseURI(c.AmqpURI)
	if err != nil {
		return c, errNoAMQPAddress
	}
	if uri.Scheme != "amqps" {
		return c, nil
	}
	if c.TLSConfig, err = tlsOf(uri).client(); err != nil {
		return c, err
	}
	if own := c.TLSConfig.Certificates; len(own) > 0 && time.Now().After(own[0].Leaf.NotAfter) {
		return c, fmt.Errorf("tls.cert_file: the certificate in %s expired at %s: renew it",
			uri.CertFile, own[0].Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return c, nil
}

func tlsOf(uri amqp.URI) TLS {
	return TLS{CAFile: uri.CACertFile, CertFile: uri.CertFile, KeyFile: uri.KeyFile, ServerName: uri.ServerName}
}

// explained says what is to be done about an error of connecting with TLS.
func explained(err error, address string) error {
	uri, _ := amqp.ParseURI(address)
	if err == nil || uri.Scheme != "amqps" {
		return err
	}
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	_, otherName := errors.AsType[x509.HostnameError](err)
	invalid, _ := errors.AsType[x509.CertificateInvalidError](err)
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	switch {
	case unknown && uri.CACertFile == "":
		return fmt.Errorf("%w: set tls.ca_file to the authority that signed the broker's certificate", err)
	case unknown:
		return fmt.Errorf("%w: the authority that signed the broker's certificate is not in %s", err, uri.CACertFile)
	case otherName:
		return fmt.Errorf("%w: set tls.server_name to a name that the broker's certificate has", err)
	case invalid.Cert != nil && invalid.Reason == x509.Expired:
		return fmt.Errorf("%w: renew the broker's certificate, or set the clock of this machine", err)
	case plain:
		return fmt.Errorf("%w: the port does not speak TLS: that of RabbitMQ which does is 5671 by default", err)
	}
	return refused(err, uri)
}

// refused says why the broker may have ended the connection in the TLS handshake
// or, as with TLS 1.3, just after it. What it said then gets lost now and then,
// so it is left out: the reason is the same at every try.
func refused(err error, uri amqp.URI) error {
	why := "the broker ended the TLS handshake: it may want a certificate: set tls.cert_file and tls.key_file"
	if uri.CertFile != "" {
		why = fmt.Sprintf("the broker ended the TLS handshake: it may not accept the certificate in %s: "+
			"it must be valid, and signed by an authority that the broker trusts", uri.CertFile)
	}
	if alert, ok := errors.AsType[*net.OpError](err); ok && alert.Op == "remote error" {
		return fmt.Errorf("%w: %s", err, why)
	}
	if endedEarly(err) {
		return errors.New(why)
	}
	return err
}

// endedEarly reports whether a connection ended before AMQP was spoken.
func endedEarly(err error) bool {
	if e, ok := errors.AsType[*amqp.Error](err); ok {
		return !e.Server && (e.Code == amqp.FrameError || e.Code == amqp.ChannelError)
	}
	return errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
