package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// authority is the control plane's own certificate authority. It signs the servers'
// certificates and those of users, and lives as long as the control plane.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// newAuthority makes a CA with dir/ca.crt. The key never leaves this process.
func newAuthority(dir string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the CA's key: %w", err)
	}
	template := certificate("holdfast-test-ca")
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("signing the CA's certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("parsing the CA's certificate: %w", err)
	}
	a := &authority{dir: dir, cert: cert, key: key, pem: pemBlock("CERTIFICATE", der)}
	return a, os.WriteFile(a.file("ca.crt"), a.pem, 0o600)
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// server writes name.crt and name.key for a server on the loopback address.
func (a *authority) server(name string) error {
	template := certificate(name)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 0, 0, 1)}
	template.DNSNames = []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	return a.write(name, template)
}

// client writes name.crt and name.key for a user.
func (a *authority) client(name, user string, groups ...string) error {
	crt, key, err := a.user(user, groups...)
	if err != nil {
		return err
	}
	return a.store(name, crt, key)
}

// user returns a certificate and a key that authenticate a user.
func (a *authority) user(user string, groups ...string) (crt, key []byte, err error) {
	template := certificate(user)
	template.Subject.Organization = groups
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.sign(template)
}

func (a *authority) write(name string, template *x509.Certificate) error {
	crt, key, err := a.sign(template)
	if err != nil {
		return err
	}
	return a.store(name, crt, key)
}

func (a *authority) store(name string, crt, key []byte) error {
	if err := os.WriteFile(a.file(name+".crt"), crt, 0o600); err != nil {
		return fmt.Errorf("writing a certificate: %w", err)
	}
	if err := os.WriteFile(a.file(name+".key"), key, 0o600); err != nil {
		return fmt.Errorf("writing a key: %w", err)
	}
	return nil
}

func (a *authority) sign(template *x509.Certificate) (crt, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making a key for %s: %w", template.Subject.CommonName, err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, private.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("signing a certificate for %s: %w", template.Subject.CommonName, err)
	}
	key, err = privatePEM(private)
	return pemBlock("CERTIFICATE", der), key, err
}

// serviceAccountKeys writes the pair that signs and verifies ServiceAccount tokens.
func (a *authority) serviceAccountKeys() error {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("making the ServiceAccount key: %w", err)
	}
	key, err := privatePEM(private)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(private.Public())
	if err != nil {
		return fmt.Errorf("encoding the ServiceAccount key: %w", err)
	}
	return a.store("sa", pemBlock("PUBLIC KEY", public), key)
}

// certificate is a template that is valid long enough for a sandbox that somebody
// forgets, and from a little before now: clocks step.
func certificate(name string) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		serial = big.NewInt(time.Now().UnixNano())
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(30 * 24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
}

func privatePEM(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding a key: %w", err)
	}
	return pemBlock("EC PRIVATE KEY", der), nil
}

func pemBlock(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
