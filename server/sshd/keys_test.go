package sshd

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/server/memfs"
)

// keygen runs ssh-keygen in a directory.
func keygen(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command(testenv.Program(t, "ssh-keygen"), args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen %q: %v\n%s", args, err, out)
	}
}

// makeKeys makes named key pairs, and returns their directory.
func makeKeys(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		keygen(t, dir, "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", name)
	}
	return dir
}

func publicKey(t *testing.T, dir, name string) ssh.PublicKey {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name+".pub"))
	if err != nil {
		t.Fatal(err)
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey(data)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func line(key ssh.PublicKey) string { return string(ssh.MarshalAuthorizedKey(key)) }

var home = netip.MustParseAddr("192.0.2.7")

func TestAuthorizedKeys(t *testing.T) {
	dir := makeKeys(t, "a", "b")
	a, b := publicKey(t, dir, "a"), publicKey(t, dir, "b")
	for options, want := range map[string]string{
		"":                                 "",
		"restrict ":                        "",
		"restrict,pty,no-port-forwarding ": "",
		`permitopen="host:1",environment="A=b c" `:       "",
		`from="192.0.2.*" `:                              "",
		`from="192.0.2.0/24,!192.0.2.7" `:                errWrongFrom.Error(),
		`from="10.0.0.0/8" `:                             errWrongFrom.Error(),
		`expiry-time="20300101" `:                        "",
		`expiry-time="20200101" `:                        errExpired.Error(),
		`expiry-time="202001011200Z" `:                   errExpired.Error(),
		`expiry-time="20200101",expiry-time="20300101" `: errExpired.Error(),
		`cert-authority `:                                errUnknownKey.Error(),
	} {
		list := ParseAuthorizedKeys("keys", []byte("# comment\n\n"+options+line(a)))
		if len(list.Warnings) > 0 {
			t.Errorf("%s: %q", options, list.Warnings)
		}
		got := ""
		if err := list.Check("u", a, home); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", options, got, want)
		}
		if err := list.Check("u", b, home); err == nil {
			t.Errorf("%s: another key is authorized", options)
		}
	}
	for options, want := range map[string]string{
		`command="rm -rf /" `:                "no commands are run here",
		`restrict,command="x" `:              "no commands are run here",
		`from="host.example.com" `:           "host names are not looked up",
		`from="" `:                           "empty pattern",
		`from="10.0.0.0/99" `:                "10.0.0.0/99",
		`from="10.0.0.1/8" `:                 "beyond the mask",
		`expiry-time="never" `:               "is not a valid time",
		`unheard-of `:                        "unheard-of: unknown option",
		`principals="x" `:                    "principals without",
		`verify-required `:                   "not supported",
		"nonsense":                           "no key",
		`from="192.0.2.7",from="192.0.2.7" `: "from: given more than once",
	} {
		list := ParseAuthorizedKeys("keys", []byte("\n"+options+line(a)))
		if len(list.Warnings) != 1 || !strings.HasPrefix(list.Warnings[0], "keys:2: ") ||
			!strings.Contains(list.Warnings[0], want) {
			t.Errorf("%s: %q, want %q", options, list.Warnings, want)
		}
		if err := list.Check("u", a, home); err == nil {
			t.Errorf("%s: the key is authorized", options)
		}
	}
}

// TestFromWithIPv6: an address is in its network whatever its zone, and itself whatever its
// spelling.
func TestFromWithIPv6(t *testing.T) {
	key := newKey(t).PublicKey()
	list := ParseAuthorizedKeys("keys",
		[]byte(`from="!fe80::/10,!2001:0DB8:0::5,!::ffff:192.0.2.7,*" `+line(key)))
	if list.Len() != 1 {
		t.Fatal(list.Warnings)
	}
	for text, allowed := range map[string]bool{"fe80::1%eth0": false, "fe80::1": false,
		"2001:db8::5": false, "2001:db8::6": true, "192.0.2.7": false, "192.0.2.8": true} {
		ip, err := net.ResolveIPAddr("ip", text)
		if err != nil {
			t.Fatal(err)
		}
		for _, address := range []netip.Addr{netip.MustParseAddr(text),
			addressOf(&net.TCPAddr{IP: ip.IP, Zone: ip.Zone})} {
			if err := list.Check("u", key, address); (err == nil) != allowed {
				t.Errorf("%s: %v", address, err)
			}
		}
	}
	local := Admission{From: []netip.Prefix{netip.MustParsePrefix("fe80::/10")}}
	at := addressOf(&net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth0"})
	if err := local.check(at, time.Now()); err != nil {
		t.Errorf("an address of the link: %v", err)
	}
}

// certificate signs a key with ssh-keygen.
func certificate(t *testing.T, dir, ca, name string, options ...string) *ssh.Certificate {
	t.Helper()
	keygen(t, dir, append(append([]string{"-q", "-s", ca}, options...), name+".pub")...)
	return publicKey(t, dir, name+"-cert").(*ssh.Certificate)
}

func TestCertificates(t *testing.T) {
	dir := makeKeys(t, "ca", "other", "k")
	authorities := &Authorities{Keys: []ssh.PublicKey{publicKey(t, dir, "ca")}}
	for _, c := range []struct {
		options []string
		want    string
	}{
		{[]string{"-I", "id", "-n", "u,v"}, ""},
		{[]string{"-I", "id", "-n", "w"}, `for ["w"]`},
		{[]string{"-I", "id"}, "for []"},
		{[]string{"-I", "id", "-n", "u", "-h"}, "not a user certificate"},
		{[]string{"-I", "id", "-n", "u", "-V", "-2d:-1d"}, "expired"},
		{[]string{"-I", "id", "-n", "u", "-V", "+1d:+2d"}, "not yet valid"},
		{[]string{"-I", "id", "-n", "u", "-O", "source-address=192.0.2.0/24"}, ""},
		{[]string{"-I", "id", "-n", "u", "-O", "source-address=10.0.0.0/8"},
			"not for this address"},
		{[]string{"-I", "id", "-n", "u", "-O", "force-command=ls"}, "force-command"},
	} {
		err := authorities.Check("u", certificate(t, dir, "ca", "k", c.options...), home)
		if c.want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.options, err, c.want)
		}
	}
	if err := authorities.Check("u", certificate(t, dir, "other", "k", "-I", "id", "-n", "u"),
		home); err == nil {
		t.Error("a stranger's certificate was taken")
	}
	forged := certificate(t, dir, "ca", "k", "-I", "id", "-n", "w")
	forged.ValidPrincipals = []string{"u"}
	if err := authorities.Check("u", forged, home); err == nil ||
		!strings.Contains(err.Error(), "signature") {
		t.Errorf("a forged certificate: %v", err)
	}

	good := certificate(t, dir, "ca", "k", "-I", "id", "-n", "u,group")
	ca := publicKey(t, dir, "ca")
	for text, want := range map[string]bool{
		"cert-authority " + line(ca):                                   true,
		`cert-authority,principals="group,x" ` + line(ca):              true,
		`cert-authority,principals="x" ` + line(ca):                    false,
		`cert-authority,principals="x",principals="group" ` + line(ca): false,
		`cert-authority,from="10.0.0.1" ` + line(ca):                   false,
		line(ca): false,
		"cert-authority " + line(publicKey(t, dir, "other")): false,
	} {
		list := ParseAuthorizedKeys("keys", []byte(text))
		if err := list.Check("u", good, home); (err == nil) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestRevocationList(t *testing.T) {
	dir := makeKeys(t, "ca", "ca2", "a", "b", "c", "d")
	certs := map[uint64]*ssh.Certificate{}
	for serial := range uint64(80) {
		// This test does not check a certificate's signature.
		certs[serial] = &ssh.Certificate{
			Key: publicKey(t, dir, "d"), SignatureKey: publicKey(t, dir,
				"ca"), Serial: serial, KeyId: fmt.Sprintf("id%d", serial),
		}
	}
	spec := "serial: 3\nserial: 10-12\nserial: 40\nserial: 42\nserial: 43\nserial: 45\nserial: 47\nserial: 50-51\nserial: 53\n" +
		"id: id77\n"
	for name, text := range map[string]string{
		"spec": spec,
		"keys": "key: " + line(publicKey(t, dir, "a")) + "sha1: " + line(publicKey(t, dir, "b")) +
			"sha256: " + line(publicKey(t, dir, "c")),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	keygen(t, dir, "-q", "-k", "-f", "krl", "-s", "ca.pub", "spec")
	keygen(t, dir, "-q", "-k", "-u", "-f", "krl", "keys")
	list, err := ReadRevocationList(filepath.Join(dir, "krl"))
	if err != nil {
		t.Fatal(err)
	}
	revoked := map[uint64]bool{3: true, 10: true, 11: true, 12: true, 40: true, 42: true, 43: true,
		45: true, 47: true, 50: true,
		51: true, 53: true, 77: true}
	for serial, c := range certs {
		if got := list.CertificateRevoked(c); got != revoked[serial] {
			t.Errorf("certificate %d: %v", serial, got)
		}
	}
	stranger := *certs[3]
	stranger.SignatureKey = publicKey(t, dir, "ca2")
	if list.CertificateRevoked(&stranger) {
		t.Error("a serial is revoked for another authority")
	}
	for _, name := range []string{"a", "b", "c"} {
		if !list.KeyRevoked(publicKey(t, dir, name)) {
			t.Errorf("key %s is not revoked", name)
		}
		holder := *certs[1]
		holder.Key = publicKey(t, dir, name)
		if !list.CertificateRevoked(&holder) {
			t.Errorf("a certificate of key %s is not revoked", name)
		}
	}
	if list.KeyRevoked(publicKey(t, dir, "d")) {
		t.Error("a key is revoked that is not on the list")
	}

	text, err := ParseRevocationList([]byte("# some\n" + line(publicKey(t, dir, "ca"))))
	if err != nil || !text.CertificateRevoked(certs[1]) || text.KeyRevoked(publicKey(t, dir, "a")) {
		t.Errorf("a list as text: %v", err)
	}
	if _, err := ParseRevocationList([]byte("nonsense\n")); err == nil {
		t.Error("nonsense was taken as a list")
	}
	data, err := os.ReadFile(filepath.Join(dir, "krl"))
	if err != nil {
		t.Fatal(err)
	}
	whole := 0
	for end := range data {
		if _, err := ParseRevocationList(data[:end]); err == nil {
			whole++ // ends between two sections
		}
	}
	if whole > 5 {
		t.Errorf("%d of %d beginnings of a list were taken", whole, len(data))
	}
	var none *RevocationList
	if none.KeyRevoked(publicKey(t, dir, "a")) || none.CertificateRevoked(certs[3]) {
		t.Error("no list revokes something")
	}
}

func FuzzParseRevocationList(f *testing.F) {
	f.Add([]byte(krlMagic + "\x00\x00\x00\x01"))
	f.Fuzz(func(t *testing.T, data []byte) { ParseRevocationList(data) })
}

func FuzzParseAuthorizedKeys(f *testing.F) {
	f.Add([]byte("from=\"10.*,!10.1.*\",expiry-time=\"20300101\" ssh-ed25519 AAAA x\n"))
	f.Fuzz(func(t *testing.T, data []byte) { ParseAuthorizedKeys("keys", data) })
}

func TestGuard(t *testing.T) {
	bans, rules := NewBanList(), usual
	rules.AddressFailures = 10
	g := newGuard(bans)
	now := time.Unix(1_700_000_000, 0)
	g.now = func() time.Time { return now }
	bans.now = g.now
	failed := func(address netip.Addr) (delay, ban time.Duration) {
		return bans.Failed(t.Context(), Source{Network: Network(address)}, wrongLogin, &rules)
	}
	attacker, neighbour := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2")
	other := netip.MustParseAddr("2001:db8:0:1::1")
	var delays []time.Duration
	for range rules.AddressFailures - 1 {
		delay, ban := failed(attacker)
		delays = append(delays, delay)
		if ban != 0 {
			t.Fatalf("banned after %d failures", len(delays))
		}
	}
	if delays[0] != firstDelay || delays[1] != 2*firstDelay || delays[8] != longestDelay {
		t.Errorf("delays of %v", delays)
	}
	if _, ban := failed(attacker); ban != usual.First {
		t.Errorf("banned for %v", ban)
	}
	begin := func(address netip.Addr, full, each int) (*place, string) {
		return g.begin(address, &loginLimits{start: full, full: full, each: each, stale: 1}, nil)
	}
	_, reason := begin(attacker, 10, 10)
	if _, also := begin(neighbour, 10, 10); reason == "" || also == "" {
		t.Error("a banned network may try")
	}
	if _, reason := begin(other, 10, 10); reason != "" {
		t.Errorf("another network may not: %s", reason)
	}
	now = now.Add(usual.First)
	if _, reason := begin(attacker, 10, 10); reason != "" {
		t.Errorf("the ban is over, but %s", reason)
	}
	if _, ban := failed(attacker); ban != 2*usual.First && ban != usual.First {
		t.Errorf("the next ban takes %v", ban)
	}
	now = now.Add(24 * time.Hour)
	if _, ban := failed(attacker); ban != 0 {
		t.Error("nothing is forgotten")
	}

	g = newGuard(bans)
	g.now = func() time.Time { return now }
	var first *place
	for i, address := range []netip.Addr{home, home, home, other, other} {
		// Two per address, three in all.
		p, reason := begin(address, 3, 2)
		if (reason != "") != (i == 2 || i == 4) {
			t.Errorf("connection %d: %q", i, reason)
		}
		if i == 0 {
			first = p
		}
	}
	g.end(first)
	if _, reason := begin(home, 3, 2); reason != "" {
		t.Error("a place was not given back")
	}
	for i := range 2 * guardMost {
		failed(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}))
	}
	if len(bans.records) > guardMost {
		t.Errorf("%d addresses are remembered", len(bans.records))
	}
}

// countedKey counts how often it verifies something.
type countedKey struct {
	ssh.PublicKey
	verified int
}

func (k *countedKey) Verify(data []byte, s *ssh.Signature) error {
	k.verified++
	return k.PublicKey.Verify(data, s)
}

// TestCertificatesTellNoNames: a certificate costs one verification, whoever it names, whoever
// signed it, and whether that is forged.
func TestCertificatesTellNoNames(t *testing.T) {
	dir := makeKeys(t, "ca", "users", "k")
	keys := ParseAuthorizedKeys("keys", []byte("cert-authority "+line(publicKey(t, dir, "users"))))
	d, err := NewDirectory(Accounts{Users: []User{{Name: "u", FS: memfs.New(0), Keys: keys}},
		Authorities: &Authorities{Keys: []ssh.PublicKey{publicKey(t, dir, "ca")}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, ca := range []string{"ca", "users", "k"} {
		for _, forged := range []bool{false, true} {
			for _, name := range []string{"u", "nobody"} {
				c := certificate(t, dir, ca, "k", "-I", "id", "-n", "u,nobody")
				key := &countedKey{PublicKey: c.SignatureKey}
				c.SignatureKey = key
				if forged {
					c.KeyId = "another"
				}
				_, err := d.PublicKey(named{name}, c)
				if key.verified != 1 {
					t.Errorf("%s, forged %v, user %s: %d verifications", ca, forged, name,
						key.verified)
				}
				if in := err == nil; in != (!forged && name == "u" && ca != "k") {
					t.Errorf("%s, forged %v, user %s: %v", ca, forged, name, err)
				}
			}
		}
	}
}

// named is a connection of a user.
type named struct{ name string }

func (n named) User() string        { return n.name }
func (named) SessionID() []byte     { return nil }
func (named) ClientVersion() []byte { return nil }
func (named) ServerVersion() []byte { return nil }
func (named) RemoteAddr() net.Addr  { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7)} }
func (named) LocalAddr() net.Addr   { return nil }
