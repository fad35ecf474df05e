package email

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"os"
	"strconv"
	"strings"
	"time"
)

// StartTLS says whether a connection that begins in the clear is encrypted.
type StartTLS string

// The policies. The zero value is Mandatory.
const (
	Mandatory     StartTLS = "mandatory"     // no mail without
	Opportunistic StartTLS = "opportunistic" // if the server offers it
	None          StartTLS = "none"          // never
)

// Auth is how to log in.
type Auth string

// The mechanisms. The zero value takes the first of SCRAM-SHA-256, SCRAM-SHA-1,
// PLAIN and LOGIN that the server offers.
const (
	ScramSHA256 Auth = "scram-sha-256"
	ScramSHA1   Auth = "scram-sha-1"
	Plain       Auth = "plain"
	Login       Auth = "login"
	CramMD5     Auth = "cram-md5"
	XOAuth2     Auth = "xoauth2" // the password is the access token
)

// Defaults.
const (
	DefaultPort         = 587 // submission
	DefaultImplicitPort = 465 // submissions
	DefaultTimeout      = 30 * time.Second
)

// Config configures a sender. Host and From are needed; the zero value of every
// other field works.
type Config struct {
	Host string
	Port int // DefaultPort, or DefaultImplicitPort with ImplicitTLS, if zero

	StartTLS StartTLS
	// ImplicitTLS speaks TLS from the first byte, and excludes StartTLS.
	ImplicitTLS bool
	// CAFile is a PEM file of authorities to trust beside the system's.
	CAFile string

	// Username and Password are for a login; without a Username there is none.
	Username string
	Password string
	Auth     Auth

	// From is the sender of every mail, with or without a name:
	// "Shop <shop@example.com>". Its domain is that of the Message-IDs.
	From    string
	ReplyTo string

	// HELO is how the client names itself; the name of the machine if empty.
	HELO string
	// Timeout bounds one call, as the context does. DefaultTimeout if zero.
	Timeout time.Duration
}

// New returns a sender, or everything that is wrong with the configuration.
func New(c Config) (*Sender, error) {
	c = c.withDefaults()
	from, domain, fromErr := parseFrom(c.From)
	replyTo, replyErr := parseReplyTo(c.ReplyTo)
	roots, rootErr := trusted(c.CAFile)
	if err := errors.Join(c.validate(), fromErr, replyErr, rootErr); err != nil {
		return nil, fmt.Errorf("e-mail configuration: %w", err)
	}
	return &Sender{
		c: c, from: from, replyTo: replyTo, domain: domain,
		addr: net.JoinHostPort(c.Host, strconv.Itoa(c.Port)),
		tls:  &tls.Config{ServerName: c.Host, RootCAs: roots, MinVersion: tls.VersionTLS12},
	}, nil
}

func (c Config) withDefaults() Config {
	switch {
	case c.Port == 0 && c.ImplicitTLS:
		c.Port = DefaultImplicitPort
	case c.Port == 0:
		c.Port = DefaultPort
	}
	if c.StartTLS == "" && !c.ImplicitTLS {
		c.StartTLS = Mandatory
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.HELO == "" {
		c.HELO = machine()
	}
	return c
}

// machine returns the name of the machine if it can be said to a server.
func machine() string {
	name, err := os.Hostname()
	if err != nil || !validHost(name) {
		return "localhost"
	}
	return name
}

func (c Config) validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !validHost(c.Host) {
		wrong("host: %q is not the name or address of a server; the port is a setting of its own", c.Host)
	}
	if c.Port < 1 || c.Port > 65535 {
		wrong("port: %d is not between 1 and 65535", c.Port)
	}
	switch c.StartTLS {
	case Mandatory, Opportunistic, None:
		if c.ImplicitTLS {
			wrong("STARTTLS %s: a connection with implicit TLS is encrypted already, leave it out", c.StartTLS)
		}
	case "":
	default:
		wrong("STARTTLS: %q is not mandatory, opportunistic or none", c.StartTLS)
	}
	if !validHELO(c.HELO) {
		wrong("HELO: %q is not the name or address of a machine", c.HELO)
	}
	if c.Timeout < 0 {
		wrong("timeout: %s is negative", c.Timeout)
	}
	return errors.Join(append(errs, c.validateLogin())...)
}

func (c Config) validateLogin() error {
	if c.Username == "" {
		if c.Password != "" || c.Auth != "" {
			return errors.New("login: there is no user name")
		}
		return nil
	}
	if _, known := mechanisms[c.Auth]; !known && c.Auth != "" {
		return fmt.Errorf("auth: %q is not one of scram-sha-256, scram-sha-1, plain, login, cram-md5 and xoauth2", c.Auth)
	}
	if c.Password == "" {
		return errors.New("login: there is no password")
	}
	if c.StartTLS == None && !loopback(c.Host) {
		return fmt.Errorf("login: it would go to %s in the clear, set STARTTLS to mandatory or use implicit TLS", c.Host)
	}
	return nil
}

func parseFrom(from string) (*mail.Address, string, error) {
	address, utf8, err := parseMailbox(from)
	if err != nil {
		return nil, "", fmt.Errorf("from: %w", err)
	}
	if utf8 {
		return nil, "", errors.New("from: characters beyond ASCII are not supported before the @")
	}
	return address, address.Address[strings.LastIndexByte(address.Address, '@')+1:], nil
}

func parseReplyTo(replyTo string) (*mail.Address, error) {
	if replyTo == "" {
		return nil, nil
	}
	address, utf8, err := parseMailbox(replyTo)
	if err != nil {
		return nil, fmt.Errorf("reply to: %w", err)
	}
	if utf8 {
		return nil, errors.New("reply to: characters beyond ASCII are not supported before the @")
	}
	return address, nil
}

// validHost reports whether s is an IP address, or could be a name.
func validHost(s string) bool {
	if net.ParseIP(s) != nil {
		return true
	}
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(".-_", r))
	})
}

// validHELO reports whether s is a name, or an address in brackets.
func validHELO(s string) bool {
	if inner, ok := strings.CutPrefix(s, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		return ok && net.ParseIP(strings.TrimPrefix(inner, "IPv6:")) != nil
	}
	return validHost(s)
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
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
