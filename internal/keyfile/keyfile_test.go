package keyfile

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/internal/testenv"
)

const phrase = "correct horse"

// tool runs a program that makes keys, and returns what it printed.
func tool(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(testenv.Program(t, name), args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// check opens a key file, and compares what it signs with with the public key's line.
func check(t *testing.T, file, passphrase, line string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	k, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if !IsKey(text) || k.Locked != (passphrase != "") {
		t.Errorf("IsKey is %v, Locked is %v", IsKey(text), k.Locked)
	}
	if k.Public != nil && !bytes.Equal(k.Public.Marshal(), want.Marshal()) {
		t.Error("the public half is another key's")
	}
	if k.Locked {
		for _, wrong := range []string{"", "wrong", passphrase + "x"} {
			if _, err := k.Open([]byte(wrong)); !errors.Is(err, ErrPassphrase) {
				t.Errorf("the passphrase %q: %v", wrong, err)
			}
		}
	}
	for range 2 { // nothing is decrypted in place
		p, err := k.Open([]byte(passphrase))
		if err != nil {
			t.Fatal(err)
		}
		data := []byte("data")
		sig, err := p.Signer.Sign(rand.Reader, data)
		if err != nil {
			t.Fatal(err)
		}
		if err := want.Verify(data, sig); err != nil {
			t.Error(err)
		}
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestSSHKeygen: each cipher of OpenSSH's, each type, and each form of ssh-keygen's.
func TestSSHKeygen(t *testing.T) {
	t.Parallel()
	cases := [][]string{{"-t", "rsa", "-b", "2048"}, {"-t", "ecdsa", "-b", "521"}, {"-t", "ed25519"}}
	for _, c := range []string{"3des-cbc", "aes128-cbc", "aes192-cbc", "aes256-cbc", "aes128-ctr",
		"aes192-ctr", "aes256-ctr", "aes128-gcm@openssh.com", "aes256-gcm@openssh.com",
		"chacha20-poly1305@openssh.com"} {
		cases = append(cases, []string{"-t", "ed25519", "-Z", c, "-a", "2", "-N", phrase})
	}
	for _, form := range []string{"PEM", "PKCS8"} {
		for _, p := range []string{"", phrase} {
			cases = append(cases, []string{"-t", "ecdsa", "-b", "384", "-m", form, "-N", p},
				[]string{"-t", "rsa", "-b", "2048", "-m", form, "-N", p})
		}
	}
	for _, args := range cases {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			dir, passphrase := t.TempDir(), ""
			if args[len(args)-2] == "-N" {
				passphrase = args[len(args)-1]
			} else {
				args = append(args[:len(args):len(args)], "-N", "")
			}
			tool(t, dir, "ssh-keygen", append([]string{"-q", "-f", "k"}, args...)...)
			check(t, filepath.Join(dir, "k"), passphrase, readFile(t, filepath.Join(dir, "k.pub")))
		})
	}
}

// TestPuTTYgen: each version, type and way to hash the passphrase of puttygen's.
func TestPuTTYgen(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"rsa -b 2048", "ecdsa -b 256", "ecdsa -b 384", "ecdsa -b 521",
		"ed25519"} {
		for _, param := range []string{"version=2", "version=3,passes=3",
			"version=3,kdf=argon2i,passes=3"} {
			for _, passphrase := range []string{"", phrase} {
				t.Run(fmt.Sprintf("%s,%s,%q", kind, param, passphrase), func(t *testing.T) {
					t.Parallel()
					dir := t.TempDir()
					puttygen(t, dir, kind, param, passphrase)
					line := tool(t, dir, "puttygen", "k.ppk", "-O", "public-openssh")
					check(t, filepath.Join(dir, "k.ppk"), passphrase, line)
				})
			}
		}
	}
}

func puttygen(t *testing.T, dir, kind, param, passphrase string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "pass"), []byte(passphrase), 0o600); err != nil {
		t.Fatal(err)
	}
	tool(t, dir, "puttygen", append(append([]string{"-q", "-t"}, strings.Fields(kind)...), "-C", "a: b",
		"--ppk-param", param, "--new-passphrase", "pass", "-o", "k.ppk")...)
}

// TestOpenSSL: PKCS #8 with each cipher and hash of OpenSSL's that is still in use, and curves that
// are spelled out.
func TestOpenSSL(t *testing.T) {
	t.Parallel()
	const encrypted = "pkcs8 -topk8 -in plain -out k -passout pass:" + "x"
	for name, commands := range map[string][]string{
		"scrypt":       {"ecparam -name prime256v1 -genkey -noout -out plain", encrypted + " -scrypt"},
		"aes128":       {"ecparam -name secp384r1 -genkey -noout -out plain", encrypted + " -v2 aes-128-cbc"},
		"aes192":       {"ecparam -name secp384r1 -genkey -noout -out plain", encrypted + " -v2 aes-192-cbc"},
		"3des":         {"ecparam -name secp384r1 -genkey -noout -out plain", encrypted + " -v2 des3 -v2prf hmacWithSHA1"},
		"sha512":       {"genrsa -out plain 2048", encrypted + " -v2prf hmacWithSHA512 -iter 5000"},
		"parameters":   {"ecparam -name prime256v1 -genkey -out k"},
		"P-256":        {"ecparam -name prime256v1 -genkey -noout -param_enc explicit -out k"},
		"P-384":        {"ecparam -name secp384r1 -genkey -noout -param_enc explicit -out k"},
		"P-521":        {"ecparam -name secp521r1 -genkey -noout -param_enc explicit -out k"},
		"compressed":   {"ecparam -name secp521r1 -genkey -noout -param_enc explicit -conv_form compressed -out k"},
		"in PKCS 8":    {"ecparam -name secp384r1 -genkey -noout -param_enc explicit -out plain", "pkcs8 -topk8 -nocrypt -in plain -out k"},
		"in encrypted": {"ecparam -name secp384r1 -genkey -noout -param_enc explicit -out plain", encrypted},
		"in old PEM":   {"ecparam -name secp384r1 -genkey -noout -param_enc explicit -out plain", "ec -in plain -aes256 -passout pass:x -out k"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, passphrase := t.TempDir(), ""
			for _, command := range commands {
				tool(t, dir, "openssl", strings.Fields(command)...)
				if strings.Contains(command, "pass:") {
					passphrase = "x"
				}
			}
			args := []string{"pkey", "-in", "k", "-passin", "pass:" + passphrase, "-pubout"}
			if !strings.HasPrefix(commands[0], "genrsa") {
				args = append(args, "-ec_param_enc", "named_curve", "-ec_conv_form", "uncompressed")
			}
			line := tool(t, dir, "openssl", args...)
			if err := os.WriteFile(filepath.Join(dir, "pub"), []byte(line), 0o600); err != nil {
				t.Fatal(err)
			}
			check(t, filepath.Join(dir, "k"), passphrase, tool(t, dir, "ssh-keygen", "-i", "-m", "PKCS8",
				"-f", "pub"))
		})
	}
}

// TestRefused: what is not supported is refused before a passphrase is asked for, and says why.
func TestRefused(t *testing.T) {
	t.Parallel()
	type change struct{ old, new string }
	for name, c := range map[string]struct {
		make   func(t *testing.T, dir string)
		change change
		want   string
	}{
		"not SSH's curve": {openssl("ecparam -name secp256k1 -genkey -noout -param_enc explicit -out k"),
			change{}, "curve is not one of SSH's"},
		"old encryption": {func(t *testing.T, dir string) {
			openssl("ecparam -name prime256v1 -genkey -noout -out plain")(t, dir)
			openssl("pkcs8 -topk8 -in plain -out k -passout pass:x -v1 PBE-SHA1-3DES")(t, dir)
		}, change{}, "openssl pkcs8 -topk8 converts it"},
		"many iterations": {func(t *testing.T, dir string) {
			openssl("ecparam -name prime256v1 -genkey -noout -out plain")(t, dir)
			openssl("pkcs8 -topk8 -in plain -out k -passout pass:x -iter 100000")(t, dir)
			// openssl would take as long to write it
			patch(t, filepath.Join(dir, "k"), "\x02\x03\x01\x86\xa0", "\x02\x03\x7f\xff\xff")
		}, change{}, "8388607 iterations of PBKDF2"},
		"much scrypt": {func(t *testing.T, dir string) {
			openssl("ecparam -name prime256v1 -genkey -noout -out plain")(t, dir)
			openssl("pkcs8 -topk8 -in plain -out k -passout pass:x -scrypt")(t, dir)
			const small = "\x02\x02\x40\x00\x02\x01\x08\x02\x01" // N, r and the beginning of p
			patch(t, filepath.Join(dir, "k"), small+"\x01", small+"\x7f")
		}, change{}, "more work of scrypt"},
		"many rounds": {func(t *testing.T, dir string) {
			// ssh-keygen would take as long to write it
			tool(t, dir, "ssh-keygen", "-q", "-t", "ed25519", "-f", "k", "-N", "x", "-a", "3")
			patch(t, filepath.Join(dir, "k"), "\x00\x00\x00\x03", "\x00\x00\x10\x01")
		}, change{}, "4097 rounds of bcrypt"},
		"PuTTY's DSA": {func(t *testing.T, dir string) { puttygen(t, dir, "dsa -b 1024", "version=3", "") },
			change{}, "ssh-dss"},
		"Argon2d": {func(t *testing.T, dir string) { puttygen(t, dir, "ed25519", "version=3,kdf=argon2d", "x") },
			change{}, "Argon2d"},
		"much memory": {func(t *testing.T, dir string) { puttygen(t, dir, "ed25519", "version=3", "x") },
			change{"Argon2-Memory: 8192", "Argon2-Memory: 8388608"}, "8388608 KiB"},
		"many passes": {func(t *testing.T, dir string) {
			puttygen(t, dir, "ed25519", "version=3,passes=13", "x")
		}, change{"Argon2-Memory: 8192\nArgon2-Passes: 13", "Argon2-Memory: 1\nArgon2-Passes: 16777216"},
			"16777216 passes"},
		"PuTTY's version 1": {func(t *testing.T, dir string) { puttygen(t, dir, "ed25519", "version=3", "") },
			change{puttyMagic + "3", puttyMagic + "1"}, "versions 2 and 3"},
		"changed": {func(t *testing.T, dir string) { puttygen(t, dir, "ed25519", "version=3", "") },
			change{"Comment: a: b", "Comment: b: a"}, "does not match the MAC"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			c.make(t, dir)
			file := filepath.Join(dir, "k")
			if _, err := os.Stat(file); err != nil {
				file += ".ppk"
			}
			text := readFile(t, file)
			if c.change.old != "" && !strings.Contains(text, c.change.old) {
				t.Fatalf("it has no %q:\n%s", c.change.old, text)
			}
			text = strings.Replace(text, c.change.old, c.change.new, 1)
			if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func openssl(command string) func(t *testing.T, dir string) {
	return func(t *testing.T, dir string) { tool(t, dir, "openssl", strings.Fields(command)...) }
}
