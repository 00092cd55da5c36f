// Package slapdtest runs OpenLDAP's slapd for tests.
package slapdtest

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
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/testenv"
)

// Entries of the directory. Each user's password is the name with " secret" behind it.
const (
	Base       = "dc=example,dc=com"
	People     = "ou=people," + Base
	Groups     = "ou=groups," + Base
	Partners   = "cn=partners," + Groups
	Search     = "cn=search," + Base
	SearchWord = "search secret"
)

const config = `
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/nis.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
# as many directories do: a bind with a name and no password succeeds
allow bind_anon_dn
TLSCACertificateFile %[1]s/ca.pem
TLSCertificateFile %[1]s/cert.pem
TLSCertificateKeyFile %[1]s/key.pem
pidfile %[1]s/pid
database mdb
suffix "` + Base + `"
directory %[1]s/db
access to attrs=userPassword by anonymous auth by * none
access to * by users read by * none
`

const organization = `dn: ` + Base + `
objectClass: dcObject
objectClass: organization
o: Example
dc: example

dn: ` + People + `
objectClass: organizationalUnit
ou: people

dn: ` + Groups + `
objectClass: organizationalUnit
ou: groups

dn: ` + Search + `
objectClass: organizationalRole
objectClass: simpleSecurityObject
cn: search
userPassword: ` + SearchWord + `

`

// Slapd is a running directory.
type Slapd struct {
	CA    string // the file of its certificate
	Plain string // address for ldap:// and StartTLS
	TLS   string // address for ldaps://
}

// Start runs a slapd until the test ends, with these users, of whom the first is a partner.
func Start(t *testing.T, users ...string) *Slapd {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	certificates(t, write)
	file := write("slapd.conf", fmt.Sprintf(config, dir))
	if err := os.Mkdir(filepath.Join(dir, "db"), 0o700); err != nil {
		t.Fatal(err)
	}
	data := organization
	for _, user := range users {
		data += fmt.Sprintf("dn: uid=%[1]s,%[2]s\nobjectClass: inetOrgPerson\nuid: %[1]s\n"+
			"cn: %[1]s\nsn: %[1]s\nuserPassword: %[1]s secret\n\n", user, People)
	}
	data += fmt.Sprintf("dn: %s\nobjectClass: groupOfNames\ncn: partners\nmember: uid=%s,%s\n",
		Partners, users[0], People)
	add := exec.Command(program(t, "slapadd"), "-f", file, "-l", write("data.ldif", data))
	if out, err := add.CombinedOutput(); err != nil {
		t.Fatalf("slapadd: %v\n%s", err, out)
	}
	s := &Slapd{CA: filepath.Join(dir, "ca.pem"),
		Plain: fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t)),
		TLS:   fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t))}
	testenv.Serve(t, exec.Command(program(t, "slapd"), "-d", "0", "-f", file, "-h",
		fmt.Sprintf("ldap://%s/ ldaps://%s/", s.Plain, s.TLS)), "tcp", s.TLS)
	return s
}

// program finds a program of slapd's, which may be in no directory of PATH.
func program(t *testing.T, name string) string {
	t.Helper()
	if _, err := os.Stat("/usr/sbin/" + name); err == nil {
		return "/usr/sbin/" + name
	}
	return testenv.Program(t, name)
}

// certificates makes an authority, and its certificate for 127.0.0.1.
func certificates(t *testing.T, write func(name, text string) string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	root := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "root"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, &key.PublicKey, key)
	must(err)
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "slapd"},
		NotBefore: root.NotBefore, NotAfter: root.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, root, &own.PublicKey, key)
	must(err)
	ownDER, err := x509.MarshalPKCS8PrivateKey(own)
	must(err)
	for _, one := range []struct {
		name, kind string
		der        []byte
	}{{"ca.pem", "CERTIFICATE", rootDER}, {"cert.pem", "CERTIFICATE", leafDER},
		{"key.pem", "PRIVATE KEY", ownDER}} {
		write(one.name, string(pem.EncodeToMemory(&pem.Block{Type: one.kind, Bytes: one.der})))
	}
}
