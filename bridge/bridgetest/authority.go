package bridgetest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

// Authority signs certificates for tests.
type Authority struct {
	// File has the certificate of the authority, in PEM.
	File string

	tb   TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Certificate is a certificate and its key in files, in PEM.
type Certificate struct{ CertFile, KeyFile string }

// NewAuthority makes an authority that keeps its files in a directory of its own, which goes when
// tb ends.
func NewAuthority(tb TB) *Authority {
	tb.Helper()
	dir, err := os.MkdirTemp("", "tidings-authority-")
	if err != nil {
		tb.Fatalf("make an authority: %v", err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	a := &Authority{tb: tb, dir: dir}
	template := &x509.Certificate{IsCA: true, KeyUsage: x509.KeyUsageCertSign}
	issued, cert, key := a.sign("authority", template, time.Hour)
	a.File, a.cert, a.key = issued.CertFile, cert, key
	return a
}

// Issue makes a certificate that is valid for a time from now on, or was until then if the time is
// negative, for a server of these host names, or for a client if there are none.
func (a *Authority) Issue(name string, valid time.Duration, hosts ...string) Certificate {
	a.tb.Helper()
	issued, _, _ := a.sign(name, &x509.Certificate{DNSNames: hosts, KeyUsage: x509.KeyUsageDigitalSignature}, valid)
	return issued
}

func (a *Authority) sign(name string, template *x509.Certificate, valid time.Duration) (Certificate, *x509.Certificate, *ecdsa.PrivateKey) {
	a.tb.Helper()
	now := time.Now()
	template.Subject = pkix.Name{CommonName: name}
	template.SerialNumber = big.NewInt(now.UnixNano())
	template.NotBefore, template.NotAfter = now.Add(-24*time.Hour), now.Add(valid)
	template.BasicConstraintsValid = true
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	a.must(err)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	a.must(err)
	cert, err := x509.ParseCertificate(der)
	a.must(err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	a.must(err)
	return Certificate{a.write(name+".pem", "CERTIFICATE", der), a.write(name+".key", "PRIVATE KEY", private)}, cert, key
}

func (a *Authority) write(name, kind string, der []byte) string {
	a.tb.Helper()
	path := filepath.Join(a.dir, name)
	a.must(os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	return path
}

func (a *Authority) must(err error) {
	a.tb.Helper()
	if err != nil {
		a.tb.Fatalf("make a certificate: %v", err)
	}
}
