package dial

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/sftptest/opensshd"
)

func writeFile(t testing.TB, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// settingsOf resolves with OpenSSH or, where the environment has no ssh, the library.
func settingsOf(t testing.TB, target Target, c *Config) (*settings, error) {
	t.Helper()
	w, exact, err := resolve(testContext(t), target, c)
	if err != nil {
		return nil, err
	}
	if err := checkSupport(w, exact, slog.New(slog.DiscardHandler)); err != nil {
		return nil, err
	}
	return readSettings(target, w, c)
}

// withoutSSH is an environment in which no ssh is found.
func withoutSSH(home string) []string {
	return []string{"PATH=" + filepath.Join(home, "nothing"), "HOME=" + home,
		"SSH_AUTH_SOCK=/agent"}
}

// TestConfigMistakes: each of ssh's lines about a configuration says which line is wrong; the last
// one only counts them.
func TestConfigMistakes(t *testing.T) {
	opensshd.Find(t, "ssh")
	file := writeFile(t, filepath.Join(t.TempDir(), "c"), "Host h\n Foo bar\n Port x\n")
	_, err := New(testContext(t), Target{Host: "h"}, &Config{ConfigFile: file})
	want := "h: the ssh configuration: " + file + ": line 2: Bad configuration option: foo; " +
		file + " line 3: Bad port 'x'"
	if err == nil || err.Error() != want {
		t.Errorf("%v; want %s", err, want)
	}
}

// TestParity reads the same configuration with `ssh -G` and with the library.
func TestParity(t *testing.T) {
	opensshd.Find(t, "ssh")
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "more.conf"),
		"Port 2022\nCompression yes\nHost inner\n  User included\n")
	writeFile(t, filepath.Join(dir, "command"), "ProxyCommand nc\n")
	writeFile(t, filepath.Join(dir, "jump"), "ProxyJump j\n")
	for _, c := range []struct {
		name   string
		text   string
		target Target
		config Config
	}{
		{name: "empty"},
		{name: "host", text: "Host h\n HostName real.example\n User u\n Port 99\nHost *\n User other\n Port 100\n"},
		{name: "tokens in HostName", text: "HostName %h.example.com\n"},
		{name: "equals and quotes", text: "User=\"u\"\nPort = 77\n"},
		{name: "comments", text: "User u # me\nPort 5\t#\nIdentityFile \"~/a b\" # c\n"},
		{name: "old names", text: "ChallengeResponseAuthentication no\nPubkeyAcceptedKeyTypes ssh-ed25519\n"},
		{name: "older names", text: "DSAAuthentication no\nTISAuthentication no\nKeepAlive no\nSmartcardDevice /p.so\nIdentityFile2 /k\n"},
		{name: "oldest name", text: "SkeyAuthentication no\n"},
		{name: "upper case", text: "HostKeyAlias AL\nIdentityFile /k/%h/%n/%k/%C\nUserKnownHostsFile /u/%h\nHost FOO\n Port 3\nHost foo\n Port 4\n",
			target: Target{Host: "FOO"}},
		{name: "HostName in upper case", text: "HostName %h.Example\n", target: Target{Host: "FOO"}},
		{name: "another spelling of an address", text: "IdentityFile /k/%h/%n\n",
			target: Target{Host: "0:0::1"}},
		{name: "zone", target: Target{Host: "fe80::1%lo"}},
		{name: "alias", text: "HostKeyAlias other\nHashKnownHosts yes\nStrictHostKeyChecking accept-new\n"},
		{name: "negation", text: "Host * !h\n Port 1\nHost ?\n Port 2\n"},
		{name: "times", text: "ConnectTimeout 1m30s\nServerAliveInterval 2m\nServerAliveCountMax 7\nConnectionAttempts 3\n"},
		{name: "identities", text: "IdentityFile ~/a_%r\nIdentityFile /b/%h/%n/%p/%%\nIdentitiesOnly yes\nCertificateFile ~/c\n"},
		{name: "identity none", text: "IdentityFile none\nIdentityAgent none\n"},
		{name: "agent", text: "IdentityAgent ~/agent.%u\n"},
		{name: "agent by variable", text: "IdentityAgent $SSH_AUTH_SOCK\n"},
		{name: "known hosts", text: "UserKnownHostsFile ~/k1 /k2/%h\nGlobalKnownHostsFile /g\n"},
		{name: "no known hosts", text: "UserKnownHostsFile none\nGlobalKnownHostsFile none\n"},
		{name: "jump", text: "ProxyJump a@b:22,c\nProxyCommand nc %h %p\n"},
		{name: "jump in quotes", text: "ProxyJump \"j\"\n"},
		{name: "jump taken back", text: "Host h\n ProxyJump none\nHost *\n ProxyJump x\n"},
		{name: "command first", text: "ProxyCommand nc\nProxyJump j\n"},
		{name: "no command first", text: "Host h\n ProxyCommand none\nHost *\n ProxyJump j\n"},
		{name: "jump behind an included command", text: "Include " + dir + "/command\nProxyJump j\n"},
		{name: "command behind an included jump", text: "Include " + dir + "/jump\nProxyCommand nc\n"},
		{name: "command flag before a jump", text: "ProxyJump j\n",
			config: Config{Options: []string{"ProxyCommand=nc"}}},
		{name: "command", text: "ProxyCommand nc  -x 'a b' %h %p\n"},
		{name: "methods", text: "PasswordAuthentication no\nKbdInteractiveAuthentication no\nPreferredAuthentications password,publickey\nNumberOfPasswordPrompts 1\n"},
		{name: "keys for the agent", text: "AddKeysToAgent yes\n"},
		{name: "keys for the agent to ask for", text: "AddKeysToAgent confirm 1h\n"},
		{name: "keys for the agent for some time", text: "AddKeysToAgent 1h30\n"},
		{name: "keys for the agent if one says so", text: "AddKeysToAgent ask\n"},
		{name: "revoked keys", text: "RevokedHostKeys ~/a%h\n"},
		{name: "command for known hosts", text: "KnownHostsCommand /bin/c %H x\n"},
		{name: "no keys", text: "PubkeyAuthentication no\n"},
		{name: "ciphers", text: "Ciphers aes256-ctr,aes128-gcm@openssh.com\nMACs hmac-sha2-256\nKexAlgorithms curve25519-sha256\nHostKeyAlgorithms ssh-ed25519,rsa-sha2-256\nPubkeyAcceptedAlgorithms ssh-ed25519\nCASignatureAlgorithms ssh-ed25519\n"},
		{name: "more host keys", text: "HostKeyAlgorithms +ssh-rsa\n"},
		{name: "fewer host keys", text: "HostKeyAlgorithms -ecdsa-*\n"},
		{name: "host keys in another order", text: "HostKeyAlgorithms ^rsa-sha2-256\n"},
		{name: "family", text: "AddressFamily inet6\nBindAddress ::1\nBindInterface lo\nTCPKeepAlive no\nRekeyLimit 1G\n"},
		{name: "batch", text: "BatchMode yes\nServerAliveInterval 0\nNoHostAuthenticationForLocalhost yes\n"},
		{name: "include", text: "Include " + dir + "/more.* # c\nPort 1\n",
			target: Target{Host: "inner"}},
		{name: "match all", text: "Host zzz\n Port 1\nMatch all # c\n Port 2\n"},
		{name: "flags", text: "User u\nPort 5\nIdentityFile ~/x\n",
			target: Target{User: "me", Host: "h", Port: 6},
			config: Config{Options: []string{"HostName=1.2.3.4", "port 7", "IdentityFile=/o"},
				AddressFamily: "inet", Jump: "j"}},
		{name: "command flag", config: Config{Options: []string{`ProxyCommand="a b" %h "c#d"`}}},
		{name: "cipher flag", config: Config{Ciphers: "aes256-gcm@openssh.com"}},
		{name: "percent signs", text: "ControlPath /c%%h\nIdentityAgent /a%%h\nUserKnownHostsFile /k%%h /l%%\nGlobalKnownHostsFile /g%h\n"},
		{name: "address with a zone", text: "ControlPath /c/%r@%h:%p\nIdentityAgent /a/%k\nUserKnownHostsFile ~/k/%h\n",
			target: Target{Host: "h"}, config: Config{Options: []string{"HostName=fe80::1%%lo"}}},
		{name: "port flag", text: "Port 5\n", config: Config{Port: 8}},
	} {
		t.Run(c.name, func(t *testing.T) {
			home := homeDir(new(Config))
			target := c.target
			if target.Host == "" {
				target.Host = "h"
			}
			config := c.config
			config.ConfigFile = writeFile(t, filepath.Join(t.TempDir(), "config"), c.text)
			config.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home,
				"SSH_AUTH_SOCK=/agent"}
			exact, err := settingsOf(t, target, &config)
			if err != nil {
				t.Fatal(err)
			}
			config.Env = withoutSSH(home)
			ours, err := settingsOf(t, target, &config)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range []*settings{exact, ours} {
				s.env, s.environ, s.find = nil, nil, nil
				// Versions differ in which types of key they still look for.
				s.identities = slices.DeleteFunc(s.identities, func(id identityFile) bool {
					return !id.explicit && (strings.HasSuffix(id.path, "_dsa") ||
						strings.HasSuffix(id.path, "_xmss"))
				})
			}
			if !reflect.DeepEqual(exact, ours) {
				t.Errorf("ssh -G gives\n%+v\nand the library\n%+v", exact, ours)
			}
		})
	}
}

// TestStockConfigurations: what distributions ship must be no reason to refuse.
func TestStockConfigurations(t *testing.T) {
	debian := "Host *\n    SendEnv LANG LC_*\n    HashKnownHosts yes\n    GSSAPIAuthentication yes\n"
	fedora := "Match all\n  GSSAPIAuthentication yes\n  Ciphers aes256-gcm@openssh.com,chacha20-poly1305@openssh.com,aes256-ctr,aes128-gcm@openssh.com,aes128-ctr\n" +
		"  MACs hmac-sha2-256-etm@openssh.com,hmac-sha1-etm@openssh.com,umac-128-etm@openssh.com,hmac-sha2-512-etm@openssh.com,hmac-sha2-256\n" +
		"  KexAlgorithms mlkem768x25519-sha256,sntrup761x25519-sha512,curve25519-sha256,curve25519-sha256@libssh.org,ecdh-sha2-nistp256\n" +
		"  HostKeyAlgorithms ecdsa-sha2-nistp256,ssh-ed25519,rsa-sha2-256\n  PubkeyAcceptedAlgorithms ecdsa-sha2-nistp256,ecdsa-sha2-nistp256-cert-v01@openssh.com,ssh-ed25519\n" +
		"  CASignatureAlgorithms ssh-ed25519\n  RequiredRSASize 2048\n  ForwardX11Trusted yes\n  SendEnv LANG LC_CTYPE\n  SendEnv XMODIFIERS\n"
	macos := "Host *\n  SendEnv LANG LC_*\n  HashKnownHosts yes\n"
	for name, text := range map[string]string{"debian": debian, "fedora": fedora, "macos": macos} {
		home := t.TempDir()
		c := &Config{ConfigFile: writeFile(t, filepath.Join(home, "c"), text),
			Env: withoutSSH(home)}
		if _, err := settingsOf(t, Target{Host: "h"}, c); err != nil {
			t.Errorf("%s's own ssh_config, by the library: %v", name, err)
		}
		if name == "fedora" { // names algorithms that this ssh may not have
			continue
		}
		c.Env = nil
		if _, err := settingsOf(t, Target{Host: "h"}, c); err != nil {
			t.Errorf("%s's own ssh_config, by ssh -G: %v", name, err)
		}
	}
}

// TestRefusedWords: each word that is not implemented and changes where or how we
// connect must be refused by name, whoever resolved it.
func TestRefusedWords(t *testing.T) {
	cases := map[string]string{
		"ProxyUseFdpass":           "ProxyUseFdpass yes\nProxyCommand x\n",
		"PreferredAuthentications": "PreferredAuthentications gssapi-with-mic,hostbased\n",
		"GSSAPIAuthentication":     "GSSAPIAuthentication yes\nPubkeyAuthentication no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n",
		"HostbasedAuthentication":  "HostbasedAuthentication yes\nPubkeyAuthentication no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n",
		"Ciphers":                  "Ciphers 3des-cbc,aes256-cbc\n",
		"KexAlgorithms":            "KexAlgorithms diffie-hellman-group18-sha512\n",
		"MACs":                     "MACs umac-64@openssh.com\n",
		"HostKeyAlgorithms":        "HostKeyAlgorithms webauthn-sk-ecdsa-sha2-nistp256@openssh.com\n",
		"CanonicalizeHostname":     "CanonicalizeHostname yes\n",
	}
	for word, text := range cases {
		for _, by := range []string{"library", "ssh -G"} {
			home := t.TempDir()
			c := &Config{ConfigFile: writeFile(t, filepath.Join(home, "c"), text)}
			switch {
			case by == "library":
				c.Env = withoutSSH(home)
			case word == "CanonicalizeHostname" || c.find("ssh") == "":
				continue // ssh -G has done it
			}
			if word == "Ciphers" && os.Getenv(stackEnv) != "" { // x/crypto/ssh has 3des-cbc
				c.Options = []string{"Ciphers=aes256-cbc"}
			}
			_, err := settingsOf(t, Target{Host: "h"}, c)
			var refusedWord *UnsupportedError
			if !errors.As(err, &refusedWord) || refusedWord.Keyword != word ||
				!errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "dial.Config.SSH") {
				t.Errorf("%s, by %s: %v", word, by, err)
			}
		}
	}
	for _, harmless := range []string{
		"BindInterface none\n", "ProxyUseFdpass yes\n", "ControlPath /x\nControlMaster auto\n",
		"VerifyHostKeyDNS yes\n", "KnownHostsCommand none\n",
		"Tunnel yes\n", "RemoteCommand ls\n", "LocalForward 1 a:2\n", "ForwardAgent yes\n",
		"Compression yes\n", "CheckHostIP yes\n",
		"GSSAPIAuthentication yes\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n",
		"CanonicalizeHostname no\n", "SetEnv A=\"b c\" D='e#f'\n", "RemoteCommand a#b \"c\"\n",
	} {
		home := t.TempDir()
		c := &Config{ConfigFile: writeFile(t, filepath.Join(home, "c"), harmless),
			Env: withoutSSH(home)}
		if _, err := settingsOf(t, Target{Host: "h"}, c); err != nil {
			t.Errorf("%q: %v", harmless, err)
		}
	}
}

func TestRefuseConnection(t *testing.T) {
	w := keywords{"hostname": {"h"}, "refuseconnection": {"use the other one"}}
	if err := checkSupport(w, true, slog.New(slog.DiscardHandler)); err == nil ||
		!strings.Contains(err.Error(), "use the other one") {
		t.Errorf("RefuseConnection gave %v", err)
	}
}

func TestConfigurationErrors(t *testing.T) {
	for _, c := range []struct{ text, says string }{
		{"Port x\n", "port"},
		{"Port 70000\n", "port"},
		{"HostName -oProxyCommand=x\n", "starts with '-'"},
		{"HostName a;b\n", "character"},
		{"User -x\n", "starts with '-'"},
		{"ConnectTimeout soon\n", "time"},
		{"AddressFamily inet7\n", "AddressFamily"},
		{"StrictHostKeyChecking maybe\n", "StrictHostKeyChecking"},
		{"Match user x\n Port 3\n", "OpenSSH's ssh is not installed"},
		{"Match host h user me\n Port 3\n", "OpenSSH's ssh is not installed"},
		{"Host \"h\"\n Port 3\n", "OpenSSH's ssh is not installed"},
		{"Match exec \"true\"\n", "OpenSSH's ssh is not installed"},
		{"HostName h#x\n", "line 1: HostName with quotes, tabs or #"},
		{"Port 2\nHost h#2\n Port 3\n", "line 2: Host with quotes, tabs or #"},
		{"Include \"~/a b\"\n", "Include with quotes"},
		{"UserKnownHostsFile \"/a b\" /c\n", "UserKnownHostsFile with quotes"},
		{"UserKnownHostsFile /a\\ b\n", "UserKnownHostsFile with quotes"},
		{"IdentityFile '~/a b'\n", "IdentityFile with quotes"},
		{"ProxyCommand nc#1 %h\n", "OpenSSH's ssh is not installed"},
		{"ProxyCommand \"/a b/nc\" -x \"%h\"\n", "OpenSSH's ssh is not installed"},
		{"HostName %q\n", "token"},
	} {
		home := t.TempDir()
		config := &Config{ConfigFile: writeFile(t, filepath.Join(home, "c"), c.text),
			Env: withoutSSH(home)}
		if _, err := settingsOf(t, Target{Host: "h"}, config); err == nil ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%q, by the library: %v; want what says %q", c.text, err, c.says)
		}
	}
	c := &Config{Options: []string{"NoSuchWord=1"}}
	if c.find("ssh") != "" {
		if _, err := settingsOf(t, Target{Host: "h"}, c); err == nil ||
			!strings.Contains(err.Error(), "NoSuchWord") &&
				!strings.Contains(err.Error(), "nosuchword") {
			t.Errorf("an unknown word gave %v", err)
		}
	}
	for _, env := range [][]string{nil, withoutSSH(t.TempDir())} {
		if _, err := settingsOf(t, Target{Host: "h"},
			&Config{ConfigFile: "/nowhere/at/all", Env: env}); err == nil ||
			!strings.Contains(err.Error(), "/nowhere/at/all") {
			t.Errorf("a missing -F file gave %v", err)
		}
	}
}

// TestUserFiles reads ~/.ssh/config of the environment's home, with its relative Include.
func TestUserFiles(t *testing.T) {
	home := t.TempDir()
	writeFile(t, filepath.Join(home, ".ssh", "config"), "Include more/*\nHost h\n Port 8\n")
	writeFile(t, filepath.Join(home, ".ssh", "more", "a"), "Host h\n User u\n IdentityFile ~/k\n")
	s, err := settingsOf(t, Target{Host: "h"}, &Config{Env: withoutSSH(home)})
	if err != nil {
		t.Fatal(err)
	}
	want := []identityFile{{filepath.Join(home, "k"), true}}
	if s.port != 8 || s.user != "u" || !slices.Equal(s.identities, want) {
		t.Errorf("the files gave port %d, user %q, identities %v", s.port, s.user, s.identities)
	}
	if got := s.userKnown; !slices.Equal(got,
		[]string{filepath.Join(home, ".ssh/known_hosts"),
			filepath.Join(home, ".ssh/known_hosts2")}) {
		t.Errorf("known hosts are %v", got)
	}
}

// TestOldOutputOfSSH: OpenSSH before 8.5, such as RHEL 8's, prints a keyword under its old name.
func TestOldOutputOfSSH(t *testing.T) {
	w, err := parseG([]byte("hostname h\nchallengeresponseauthentication no\n" +
		"kbdinteractiveauthentication yes\npubkeyacceptedkeytypes ssh-ed25519\n"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := readSettings(Target{Host: "h"}, w, new(Config))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(s.pubkeyAlgos, []string{ssh.KeyAlgoED25519}) || !s.kbd {
		t.Errorf("algorithms of user keys %q, keyboard-interactive %v", s.pubkeyAlgos, s.kbd)
	}
}

// TestHomeThatIsNoDirectory: services often have /dev/null as their home.
func TestHomeThatIsNoDirectory(t *testing.T) {
	home := writeFile(t, filepath.Join(t.TempDir(), "home"), "")
	s, err := settingsOf(t, Target{Host: "h"}, &Config{Env: withoutSSH(home)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newHostKeyChecker(t.Context(), s, newAsker(new(Config))); err != nil {
		t.Error(err)
	}
	k := &keyring{ctx: t.Context(), s: s, asker: newAsker(new(Config))}
	if k.credentials(); len(k.notes) > 0 {
		t.Errorf("notes: %q", k.notes)
	}
}

// TestOtherSSH: a program named ssh that is not OpenSSH's cannot be asked.
func TestOtherSSH(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("on Windows a script cannot be ssh.exe")
	}
	home := t.TempDir()
	file := writeFile(t, filepath.Join(home, "bin", "ssh"),
		"#!/bin/sh\necho 'Dropbear v2024: unknown option -G' >&2\nexit 1\n")
	if err := os.Chmod(file, 0o755); err != nil {
		t.Fatal(err)
	}
	conf := writeFile(t, filepath.Join(home, "conf"), "Port 8\n")
	s, err := settingsOf(t, Target{Host: "h"},
		&Config{ConfigFile: conf, Env: []string{"PATH=" + filepath.Dir(file), "HOME=" + home}})
	if err != nil || s.port != 8 {
		t.Errorf("%+v, %v", s, err)
	}
	writeFile(t, file, "#!/bin/sh\nsleep 100 </dev/null\n")
	ctx, cancel := context.WithCancel(testContext(t))
	cancel()
	if _, err := New(ctx, Target{Host: "h"},
		&Config{Env: []string{"PATH=" + filepath.Dir(file), "HOME=" + home}}); !errors.Is(err,
		context.Canceled) {
		t.Errorf("a cancelled New: %v", err)
	}
}

// TestWhatHoldsThePipesOfSSH: what "Match exec" leaves behind has ssh's standard error, and a
// process that is just being started may have its standard output for a moment. The configuration
// is read all the same.
func TestWhatHoldsThePipesOfSSH(t *testing.T) {
	t.Parallel()
	program := opensshd.Find(t, "ssh")
	dir := t.TempDir()
	conf := writeFile(t, filepath.Join(dir, "conf"), "Match exec \"sleep 3 &\"\nPort 8\n")
	slow := writeFile(t, filepath.Join(dir, "bin", "ssh"),
		"#!/bin/sh\nsleep 2 &\nexec "+program+" \"$@\"\n")
	if err := os.Chmod(slow, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{
		"standard error": filepath.Dir(program), "standard output": filepath.Dir(slow)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := settingsOf(t, Target{Host: "h"}, &Config{ConfigFile: conf,
				Env: []string{"PATH=" + path + ":" + os.Getenv("PATH"), "HOME=" + dir}})
			if err != nil || s.port != 8 {
				t.Errorf("%+v, %v", s, err)
			}
		})
	}
}

// TestLongOutputOfSSH: a program's output is read up to a limit.
func TestLongOutputOfSSH(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("on Windows a script cannot be ssh.exe")
	}
	home := t.TempDir()
	file := writeFile(t, filepath.Join(home, "bin", "ssh"),
		"#!/bin/sh\nexec /usr/bin/head -c "+strconv.Itoa(maxConfig+1)+" /dev/zero\n")
	if err := os.Chmod(file, 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := sshG(testContext(t), file, &Config{}, nil)
	if err == nil || !strings.Contains(err.Error(), "printed more than") {
		t.Error(err)
	}
}

// TestMissingIdentity: ssh -G leaves out a file of -i that is not there; we say so.
func TestMissingIdentity(t *testing.T) {
	for _, env := range [][]string{nil, withoutSSH(t.TempDir())} {
		s, err := settingsOf(t, Target{Host: "h"},
			&Config{ConfigFile: "none", Identities: []string{"/nowhere/key"}, Env: env})
		if err != nil || s.identities[0] != (identityFile{"/nowhere/key", true}) {
			t.Errorf("%+v, %v", s, err)
		}
	}
}

func TestAlgorithmPreference(t *testing.T) {
	for _, env := range [][]string{nil, withoutSSH(t.TempDir())} {
		plain, err := settingsOf(t, Target{Host: "h"}, &Config{ConfigFile: "none", Env: env})
		if err != nil {
			t.Fatal(err)
		}
		if want := map[bool]string{true: ssh.CipherAES128GCM,
			false: ssh.CipherChaCha20Poly1305}[hasAES()]; plain.ciphers[0] != want {
			t.Errorf("where nothing is configured the first cipher is %s; want %s",
				plain.ciphers[0], want)
		}
		if plain.kexes[0] != ssh.KeyExchangeMLKEM768X25519 {
			t.Errorf("the first key exchange is %s", plain.kexes[0])
		}
		// A host's key may be on a token, too.
		for _, algo := range []string{ssh.KeyAlgoSKED25519, ssh.CertAlgoSKED25519v01,
			ssh.KeyAlgoSKECDSA256, ssh.CertAlgoSKECDSA256v01} {
			if !slices.Contains(plain.hostKeyAlgos, algo) {
				t.Errorf("%s is not among the types of host keys", algo)
			}
		}
		chosen, err := settingsOf(t, Target{Host: "h"},
			&Config{ConfigFile: "none", Ciphers: "aes256-ctr,aes128-ctr", Env: env})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(chosen.ciphers, []string{ssh.CipherAES256CTR, ssh.CipherAES128CTR}) {
			t.Errorf("configured ciphers became %v", chosen.ciphers)
		}
	}
}

// TestEmptyLists: a list from which everything is taken away is not the default one.
func TestEmptyLists(t *testing.T) {
	opensshd.Find(t, "ssh")
	path := "PATH=" + os.Getenv("PATH")
	for _, env := range [][]string{{path, "HOME=/"}, withoutSSH(t.TempDir())} {
		for _, word := range []string{"Ciphers", "MACs", "KexAlgorithms", "HostKeyAlgorithms"} {
			_, err := settingsOf(t, Target{Host: "h"},
				&Config{ConfigFile: "none", Options: []string{word + "=-*"}, Env: env})
			if err == nil || err.Error() != "the ssh configuration leaves no "+word {
				t.Errorf("%s without any: %v", word, err)
			}
		}
		s, err := settingsOf(t, Target{Host: "h"}, &Config{ConfigFile: "none", Env: env,
			Options: []string{"PubkeyAcceptedAlgorithms=-*", "CASignatureAlgorithms=-*"}})
		if err != nil {
			t.Error(err)
		} else if len(s.pubkeyAlgos)+len(s.caAlgos) > 0 {
			t.Errorf("for users' keys %q are left, for authorities %q", s.pubkeyAlgos, s.caAlgos)
		}
	}
}

func TestResolveList(t *testing.T) {
	def := []string{"a", "b@x", "c1", "c2"}
	for in, want := range map[string]string{
		"": "a b@x c1 c2", "z,a": "z a", "+z,a": "a b@x c1 c2 z", "-c*,a": "b@x",
		"^c2,z": "c2 z a b@x c1", "a,a": "a",
	} {
		if got := strings.Join(resolveList(in, def), " "); got != want {
			t.Errorf("resolveList(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestDuration(t *testing.T) {
	for in, want := range map[string]time.Duration{"": 0, "none": 0, "30": 30 * time.Second,
		"1h30m": 90 * time.Minute, "1W": 7 * 24 * time.Hour, "1m5": 65 * time.Second} {
		if got, err := (keywords{"x": {in}}).duration("x"); err != nil || got != want {
			t.Errorf("duration(%q) = %v, %v; want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"x", "m", "1y", "-1", "99999999999999999999", "9999999w"} {
		if got, err := (keywords{"x": {in}}).duration("x"); err == nil {
			t.Errorf("duration(%q) = %v", in, got)
		}
	}
}

func TestRekeyLimit(t *testing.T) {
	for in, want := range map[string]struct {
		bytes uint64
		after time.Duration
	}{"": {}, "0 0": {}, "default none": {}, "1G 1h": {1 << 30, time.Hour}, "512k": {512 << 10, 0},
		"1073741824 3600": {1 << 30, time.Hour}, "8589934592": {8 << 30, 0},
		"default  1h30m": {0, 90 * time.Minute}} {
		bytes, after, err := rekeyLimit(in)
		if err != nil || bytes != want.bytes || after != want.after {
			t.Errorf("rekeyLimit(%q) = %d, %v, %v", in, bytes, after, err)
		}
	}
	for _, in := range []string{"x", "1G x", "-1 1h", "1G -1h"} {
		if _, _, err := rekeyLimit(in); err == nil {
			t.Errorf("rekeyLimit(%q) is no error", in)
		}
	}
}

func TestExpander(t *testing.T) {
	s := &settings{alias: "a", host: "h", user: "r", port: 5, home: "/home/50%",
		env: func(k string) (string, bool) {
			v, ok := map[string]string{"V": "v%h", "W": "~"}[k]
			return v, ok
		}}
	x := s.tokens()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]string{
		"~/k": filepath.FromSlash("/home/50%/k"), "~": "/home/50%", "%d/x": "/home/50%/x",
		"%h-%n-%p-%r-%%": "h-a-5-r-%", "${V}/x%h": "v%h/xh", "${W}/x": "~/x", "plain": "plain", "link/../k": "link/../k",
		"~no-such-user-here/x": "~no-such-user-here/x", "": "",
	} {
		if want != "" && want[0] != '/' && want[0] != os.PathSeparator { // it is relative
			want = here + string(os.PathSeparator) + want
		}
		if got, err := x.file(in); err != nil || (in != "~" && got != want) {
			t.Errorf("file(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
	for _, in := range []string{"%", "%Z", "${NONE}", "${open"} {
		if got, err := x.file(in); err == nil {
			t.Errorf("file(%q) = %q", in, got)
		}
	}
	if got, err := s.proxyTokens().expand("nc %h %p %r %n %k ${V} %%"); err != nil ||
		got != "nc h 5 r a a ${V} %" {
		t.Errorf("a ProxyCommand became %q, %v", got, err)
	}
}

func TestFilesWithSpaces(t *testing.T) {
	drive := "" // without which no name is absolute on Windows
	if runtime.GOOS == "windows" {
		drive = "C:"
	}
	x := expander{home: "/home/me", env: func(string) (string, bool) { return "", false }}
	for in, want := range map[string][]string{
		"/a b/c ~/d": {drive + "/a b/c", filepath.FromSlash("/home/me/d")},
		"/a /b":      {drive + "/a", drive + "/b"},
		"/a b/c /d":  {drive + "/a b/c", drive + "/d"},
	} {
		line := drive + strings.ReplaceAll(in, " /", " "+drive+"/")
		if got := x.files([]string{line}); !slices.Equal(got, want) {
			t.Errorf("files of %q = %q", line, got)
		}
	}
}

func FuzzParseG(f *testing.F) {
	f.Add([]byte("hostname h\nport 22\nidentityfile ~/a b\n"))
	f.Add([]byte("hostname\n\n port 22\r\nrekeylimit 1G 1h\nconnecttimeout 1h\n"))
	f.Fuzz(func(t *testing.T, out []byte) {
		w, err := parseG(out)
		if err != nil {
			return
		}
		if err := checkSupport(w, true, slog.New(slog.DiscardHandler)); err != nil {
			return
		}
		s, err := readSettings(Target{Host: "h"}, w, &Config{Env: []string{"HOME=/nowhere"}})
		if err != nil {
			return
		}
		if s.port < 1 || s.port > 65535 || s.connectTimeout < 0 || s.attempts < 1 ||
			len(s.ciphers) == 0 {
			t.Fatalf("%q became %+v", out, s)
		}
		if err := (Target{User: s.user, Host: s.host}).check(); err != nil {
			t.Fatal(err)
		}
	})
}
