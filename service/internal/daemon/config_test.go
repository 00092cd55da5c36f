package daemon

import (
	"bytes"
	"encoding"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/site"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/sshd"
	"github.com/usftp/usftp/service/internal/hooks"
	"github.com/usftp/usftp/service/internal/retention"
	"github.com/usftp/usftp/service/internal/store"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// Each setting of the documentation's example means what its comments say; so do the settings that
// it leaves out.
func TestConfigExample(t *testing.T) {
	t.Parallel()
	setting := regexp.MustCompile(`(?m)^#(\S|  ")`)
	text := setting.ReplaceAllString(string(readFile(t, "../../../docs/usftpd.toml")), "$1")
	dir := t.TempDir()
	for _, name := range []string{"alice", "public"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	key := readFile(t, opensshd.Keygen(t, filepath.Join(dir, "id"))+".pub")
	for _, name := range []string{"ca.pub", "publish.keys", "revoked.krl"} {
		writeFile(t, filepath.Join(dir, name), key)
	}
	for name, text := range map[string]string{"s3.keys": "", "hook.secret": "0123456789abcdef\n",
		"admin.token": "0123456789abcdef\n",
		"banner.txt":  "Authorized partners only.\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "usftpd.toml")
	writeFile(t, file, []byte(strings.ReplaceAll(text, "/srv/sftp", filepath.ToSlash(dir))))
	made, err := readConfig(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(made.Users) != 4 || len(made.Listen) != 1 ||
		made.HostKeys[0] != filepath.Join(dir, "host_ed25519_key") ||
		made.metrics != "127.0.0.1:9722" {
		t.Errorf("settings: %+v", made)
	}
	if made.Grace != time.Minute || made.LogFormat != "json" || made.LogLevel != slog.LevelInfo ||
		made.Authorities == nil || made.Revoked == nil {
		t.Errorf("settings: %+v", made)
	}
	if made.SSHD.LoginTimeout != 30*time.Second || made.SSHD.IdleTimeout != 30*time.Minute ||
		made.SSHD.MaxSessions != 10 || made.SSHD.MaxLogins != 100 || made.SSHD.MaxLoginsEach != 20 {
		t.Errorf("limits: %+v", made.SSHD)
	}
	if made.SSHD.Banner != "Authorized partners only.\n" {
		t.Errorf("the banner is %q", made.SSHD.Banner)
	}
	if r := made.SSHD.BanRules; r != r.WithDefaults() || r.AddressFailures != 50 ||
		!made.SSHD.Safe(netip.MustParseAddr("10.1.2.3")) ||
		made.SSHD.Safe(netip.MustParseAddr("10.2.0.0")) {
		t.Errorf("bans: %+v", r)
	}
	if a := made.admin; a == nil || string(a.Token) != "0123456789abcdef" || a.TLS {
		t.Errorf("admin: %+v", a)
	}
	if r := made.rules; made.audit != 90*24*time.Hour || made.metricsUsers != 100 || len(r) != 1 ||
		*r[0] != (retention.Rule{User: "publish", Path: "/out", Age: 30 * 24 * time.Hour}) {
		t.Errorf("audit, metrics, retention: %v, %d, %+v", made.audit, made.metricsUsers, r)
	}
	if made.atomic {
		t.Error("uploads are atomic where they are to be in place")
	}
	if made.proxies[0].String() != "127.0.0.1/32" || made.proxies[1].String() != "10.1.2.0/28" {
		t.Errorf("proxies: %v", made.proxies)
	}
	if made.SSHD.DropStart != 50 || made.SSHD.DropRate != 30 || made.SSHD.MaxLoginsKnown != 20 {
		t.Errorf("limits: %+v", made.SSHD)
	}
	if len(made.SSHD.LegacyAlgorithms) != 1 {
		t.Errorf("legacy algorithms: %v", made.SSHD.LegacyAlgorithms)
	}
	if !made.SSHD.Compress {
		t.Error("nobody may compress")
	}
	if s := made.storage; s.Endpoint != "https://s3.example.com" || !s.PathStyle ||
		s.Keys != filepath.Join(dir, "s3.keys") || s.memory != 128<<20 {
		t.Errorf("object storage: %+v", s)
	}
	if h := made.hooks; len(h) != 1 || h[0].Name != "web" || h[0].On[0] != hooks.Uploaded ||
		h[0].URL != "https://example.com/uploads" || string(h[0].Secret) != "0123456789abcdef" {
		t.Errorf("hooks: %+v", h)
	}
	guest, publish, alice, bob := made.Users[0], made.Users[1], made.Users[2], made.Users[3]
	if bob.Root != filepath.Join(dir, "bob") || !bob.MakeRoot || bob.Problem != nil ||
		bob.Policy.MaxFileSize != 4e9 ||
		bob.Transfers != (site.Transfers{Up: 100e9, Down: 500e9}) ||
		bob.Bandwidth != (sshd.Rates{Send: 20e6, Receive: 5e6}) || len(bob.Admission.From) != 2 {
		t.Errorf("bob: %+v", bob)
	}
	if last := time.Date(2027, 1, 31, 23, 59, 59, 0, time.Local); alice.Admission.Disabled ||
		!alice.Admission.Expires.Equal(last.Add(time.Second)) || alice.Problem != nil ||
		len(alice.RefusedNames) != 2 || len(alice.Folders) != 2 ||
		!alice.Folders[0].Policy.ReadOnly || alice.Folders[0].Root != "" ||
		alice.Folders[1].Root != filepath.Join(dir, "public") ||
		alice.Folders[1].Policy.ReadOnly || len(alice.Folders[1].Policy.Denied) != 2 {
		t.Errorf("alice: %+v", alice)
	}
	if alice.Keys == nil || alice.Quota != [2]int64{50e9, 100000} ||
		alice.Bandwidth != sshd.EachWay(20e6) ||
		alice.MaxSessions != 8 || alice.PasswordHash != "" {
		t.Errorf("alice: %+v", alice)
	}
	if publish.Keys == nil || publish.Policy.Umask != 0o022 || len(publish.Policy.Denied) != 3 ||
		publish.Policy.ReadOnly {
		t.Errorf("publish: %+v", publish)
	}
	if guest.Keys != nil || !guest.Policy.ReadOnly || guest.Root != dir {
		t.Errorf("guest: %+v", guest)
	}
	passwords, err := sshd.ParsePasswords("", []byte("guest:"+guest.PasswordHash))
	if err != nil {
		t.Fatal(err)
	}
	if err := passwords.Check(t.Context(), "guest", "example"); err != nil {
		t.Error(err)
	}
	if err := passwords.Check(t.Context(), "guest", "other"); err == nil {
		t.Error("another password does, too")
	}
}

// The documentation lists each setting and each request, and the example has each setting or says
// that it is absent.
func TestConfigDocumented(t *testing.T) {
	t.Parallel()
	text := string(readFile(t, "../../../docs/service.md"))
	var look func(reflect.Type)
	look = func(kind reflect.Type) {
		if kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
		}
		for field := range kind.Fields() {
			if field.Anonymous {
				look(field.Type)
			} else if name := field.Tag.Get("toml"); !strings.Contains(text, "`"+name+"`") &&
				!strings.Contains(text, "`["+name+"]`") &&
				!slices.Contains([]string{"users", "hooks", "groups", "outside",
					"retention"}, name) {
				t.Errorf("docs/service.md does not have %s", name)
			}
			if field.Type.Kind() == reflect.Struct && field.Type.Name() == "" {
				look(field.Type)
			}
		}
	}
	look(reflect.TypeFor[serveFile]())
	look(reflect.TypeFor[userTable]())
	look(reflect.TypeFor[ldapTable]())
	look(reflect.TypeFor[loginHookTable]())
	look(reflect.TypeFor[templateTable]())
	look(reflect.TypeFor[storeTable]())
	look(reflect.TypeFor[storageTable]())
	look(reflect.TypeFor[folderTable]())
	look(reflect.TypeFor[hookTable]())
	look(reflect.TypeFor[auditTable]())
	look(reflect.TypeFor[retentionTable]())
	look(reflect.TypeFor[adminTable]())
	for _, name := range server.Operations() {
		if !strings.Contains(text, name) {
			t.Errorf("docs/service.md does not have the request %s", name)
		}
	}
}

// Errors name the line.
func TestConfigErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key := strings.TrimSpace(string(readFile(t,
		opensshd.Keygen(t, filepath.Join(dir, "id"))+".pub")))
	writeFile(t, filepath.Join(dir, "file"), []byte("no key\n"))
	if out, err := exec.Command("ssh-keygen", "-qs", filepath.Join(dir, "id"), "-I", "id",
		filepath.Join(dir, "id.pub")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.Rename(filepath.Join(dir, "id-cert.pub"),
		filepath.Join(dir, "certificate")); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "escape"), []byte("\x1b]0;title\a"))
	writeFile(t, filepath.Join(dir, "long"), bytes.Repeat([]byte("x"), 8193))
	user := "[[users]]\nname = \"u\"\nroot = \".\"\nkeys = ['" + key + "']\n"
	hook := "[[hooks]]\nname = 'h'\n"
	if err := os.WriteFile(filepath.Join(dir, "short"), []byte("abc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ text, says string }{
		{"", `:1: there are no users: nobody could log in`},
		{"\xef\xbb\xbf", `:1: there are no users`}, // as some editors of Windows begin files
		{"listen = [\n", `:1:11: array is incomplete`},
		{"[store]\nurl = 'mysql://h/d'\n" + user,
			`:2:7: store.url: a store's URL is postgres://USER@HOST/DATABASE`},
		{"[store]\nfile = 'f'\nurl = 'postgres:///d'\n" + user,
			`:3: store.url: the store is either a file or at a URL`},
		{"[storage]\nendpoint = 's3.example.com'\n" + user,
			`:2: storage.endpoint: the endpoint "s3.example.com" is not like ` +
				`https://s3.example.com`},
		{"[admin]\ntoken = 'short'\n" + user, `:2: admin.token: ` + filepath.Join(dir, "short") +
			`: a token of fewer than 16 bytes can be guessed`},
		{"[admin]\ntoken = 'file'\n" + user, `:2: admin.token: others can read ` +
			filepath.Join(dir, "file") + ` (mode 0644): run chmod 600 on it`},
		{"[admin]\ncertificate = 'file'\n" + user,
			`:2: admin.certificate: certificate and key come together`},
		{"[admin]\ncertificate = 'file'\nkey = 'short'\n" + user,
			`:2: admin.certificate: tls: failed to find`},
		{"[audit]\nkeep = '1w'\n" + user,
			`:2:8: audit.keep: "1w" is not a valid time: use a form such as 90d, 12h or 30m`},
		{"[[retention]]\npath = '/'\nage = '1d'\n" + user,
			`:1: users: a rule needs users, in whose folder it applies`},
		{"[[retention]]\nusers = ['u']\nage = '1d'\n" + user, `:1: path: a rule needs a folder`},
		{"[[retention]]\nusers = ['u']\npath = '/out'\n" + user,
			`:1: age: a rule needs the age from which on it applies`},
		{"[[retention]]\npath = 'out'\n" + user,
			`:2:8: retention.path: "out": a folder begins with /, which is the user's root`},
		{"[[retention]]\nusers = ['u']\npath = '/out/a'\nage = '1d'\nmove_to = '/out/'\n" + user,
			`:5: move_to: /out is /out/a, or above it: files would stay`},
		{"[storage]\nkeys = 'file'\n" + user, `:2: storage.keys: others can read ` +
			filepath.Join(dir, "file") + ` (mode 0644): run chmod 600 on it`},
		{"[storage]\nregion = 'eu'\nca = 'file'\n" + user,
			`:3: storage.ca: ` + filepath.Join(dir, "file") + ` holds no certificate`},
		{"[storage]\nca = 'none'\n" + user,
			`:2: storage.ca: ` + filepath.Join(dir, "none") + `: no such file`},
		{"[[users]]\nname = 'u'\nroot = 's3:///x'\n",
			`:3: root: "s3:///x" names no bucket: use s3://BUCKET/PREFIX`},
		{"[[users]]\nname = 'u'\nroot = 's3://b/../x'\n",
			`:3: root: "s3://b/../x" has an element that no path has: use s3://BUCKET/PREFIX`},
		{"listen = 5\n" + user, `:1:10: listen: must be a list in brackets`},
		{"listen = ':22'\n" + user, `:1:10: listen: must be a list in brackets`},
		{"log_format = ['text']\n" + user, `:1:14: log_format: must be a quoted string`},
		{"users = 3\n", `:1:9: users: must be tables, each headed by [[users]]`},
		{user + "read_only = 'yes'\n", `:5:13: users.read_only: must be true or false`},
		{user + "quota_files = 'many'\n", `:5:15: users.quota_files: must be a number`},
		{"\nlistne = []\nlog_fromat = 'text'\n" + user,
			":2: unknown setting \"listne\"\nNAME:3: unknown setting \"log_fromat\""},
		{user + "allow = []\n", `:5: allow: an empty list would allow everything`},
		{user + "allow_from = []\n", `:5: allow_from: an empty list would allow everything`},
		{user + "group = 'g'\n[groups.g]\nallow = []\n",
			`:7: allow: an empty list would allow everything`},
		{user + "[[users.folders]]\npath = '/in'\nallow = []\n",
			`:7: allow: an empty list would allow everything`},
		{user + "reed_only = true\n", `:5: unknown setting "users.reed_only"`},
		{"listen = ['127.0.0.1:2022',\n  'nowhere']\n" + user,
			`:2:3: listen: "nowhere" is not an address to listen on`},
		{"listen = ['127.0.0.1:70000']\n" + user,
			`:1:11: listen: "127.0.0.1:70000" is not an address to listen on`},
		{"log_format = 'xml'\n" + user, `:1:14: log_format: "xml": must be text or json`},
		{"uploads = 'whole'\n" + user, `:1:11: uploads: "whole": must be atomic or in-place`},
		{"log_level = 'loud'\n" + user, `:1:13: log_level: must be quiet, error, info or debug`},
		{"grace = '5'\n" + user,
			`:1:9: grace: "5" is not a valid time: use a form such as 30s, 5m or 1h30m`},
		{"grace = 5\n" + user, `:1:9: grace: "5" is not a valid time: use a form such as 30s`},
		{"[[retention]]\nusers = ['u']\npath = '/'\nage = 30\n" + user,
			`:4:7: retention.age: "30" is not a valid time`},
		{"metrics = 9722\n" + user, `:1:11: metrics: "9722" is not an address to listen on`},
		{user + "umask = 99\n", `:5:9: users.umask: must be an octal number up to 777`},
		{user + "quota_files = 9999999999\n", `:5:15: users.quota_files: the number is too large`},
		{"[limits]\nlogins_drop_rate = 101\n" + user,
			`:2: limits.logins_drop_rate: at most 100 percent`},
		{user + hook + "on = ['accept']\nclamd = '/s'\nusers = []\n",
			`:9: users: an empty list would mean everybody`},
		{"limits = 3\n" + user, `:1:10: limits: must be a table`},
		{"ldap = 3\n" + user, `:1:8: ldap: must be a table`},
		{"[limits]\nidle_timeout = '-5s'\n" + user,
			`:2:16: limits.idle_timeout: "-5s" is not a valid time`},
		{"[limits]\nlogins = -1\n" + user, `:2:10: `},
		{"banner = 'none'\n" + user, `:1: banner: ` + filepath.Join(dir, "none") +
			`: no such file`},
		{"banner = 'escape'\n" + user, `:1: banner: ` + filepath.Join(dir, "escape") +
			`: must be text in UTF-8, without control characters`},
		{"banner = 'long'\n" + user, `:1: banner: ` + filepath.Join(dir, "long") +
			`: has 8193 bytes, and may have 8192`},
		{"[bans]\nnever = ['office']\n" + user,
			`:2:10: bans.never: "office" is neither an address nor a range`},
		{"[bans]\nfirst = '2h'\nlongest = '1h'\n" + user,
			`:3: bans.longest: 1h0m0s is less than 2h0m0s, which first is`},
		{"[bans]\nforget = '0s'\n" + user, `:2:10: bans.forget: "0s" is not a valid time`},
		{"ciphers = ['aes128-ctr', 'none']\n" + user,
			`:1:26: ciphers: unknown cipher "none"; use chacha20-poly1305@openssh.com, `},
		{"legacy_algorithms = ['rot13']\n" + user,
			`:1:22: legacy_algorithms: unknown legacy algorithm "rot13"; use diffie-hellman-`},
		{"proxy_protocol = ['balancer']\n" + user,
			`:1:19: proxy_protocol: "balancer" is neither an address nor a range`},
		{"[certificates]\nauthorities = 'file'\n" + user,
			`:2: certificates.authorities: ` + filepath.Join(dir, "file") +
				`:1: not a public key without options`},
		{"[certificates]\nauthorities = 'certificate'\n" + user,
			`:2: certificates.authorities: ` + filepath.Join(dir, "certificate") +
				`:1: not a public key without options`},
		{"[certificates]\n\nrevoked = 'none'\n" + user,
			`:3: certificates.revoked: ` + filepath.Join(dir, "none") + `: no such file`},
		{"[certificates]\nrevoked = 'file'\n" + user, `:2: certificates.revoked: `},
		{user + "\n" + user, `:7: name: user "u" already exists`},
		{"[[users]]\nroot = '.'\n", `:1: name: invalid user name ""`},
		{"[[users]]\nname = 'a:b'\nroot = '.'\n", `:2: name: invalid user name "a:b"`},
		{"[[users]]\nname = \"a\\u0000\"\nroot = '.'\n", `:2: name: invalid user name "a\x00"`},
		{"[[users]]\nname = '" + strings.Repeat("x", 129) + "'\nroot = '.'\n",
			`:2: name: invalid user name`},
		{"[[users]]\nname = 'u'\nroot = '.'\n", `:2: name: u has no way to log in`},
		{"[[users]]\nname = 'u'\n", `:1: root: user u needs a directory`},
		{strings.Replace(user, `"."`, `"none"`, 1),
			`:3: root: ` + filepath.Join(dir, "none") + `: no such file`},
		{"[groups.g]\nroot = 'none'\n[[users]]\nname = 'u'\ngroup = 'g'\nkeys = ['" + key + "']\n",
			`:2: root: ` + filepath.Join(dir, "none") + `: no such file`},
		{user[:len(user)-1] + "\nmake_root = true\n[[users]]\nname = 'v'\nroot = 'none/v'\n" +
			"make_root = true\nkeys = ['" + key + "']\n",
			`:8: root: ` + filepath.Join(dir, "none") + `: no such file`},
		{user + "group = 'g'\n", `:5: group: no group "g"`},
		{user + "expires = 'tomorrow'\n",
			`:5:11: `},
		{user + "expires = 2027-02-30\n", `:5:`},
		{user + "expires = 2027-01-31T00:00:00Z\n",
			`:5:11: users.expires: must be a date such as 2027-01-31, without quotes`},
		{user + "disabled = 1\n", `:5:12: users.disabled: must be true or false`},
		{user + "make_root = 'yes'\n", `:5:13: users.make_root: must be true or false`},
		{user + "allow_from = ['office']\n",
			`:5:15: users.allow_from: "office" is neither an address nor a range`},
		{user + "bandwidth_up = 'fast'\n", `:5:16: users.bandwidth_up: invalid size "fast"`},
		{user + "bandwidth_down = '0B'\n", `:5:18: users.bandwidth_down: invalid size "0B"`},
		{user + "max_file_size = 'huge'\n", `:5:17: users.max_file_size: invalid size "huge"`},
		{user + "quota_files = 0\n", `:5: quota_files: cannot be 0, which would count`},
		{user + "[limits]\nlogins = 0\n", `:6: logins: cannot be 0`},
		{user + "folders = [{path = '/in', root = '/', quota_files = 0}]\n",
			`:5: quota_files: cannot be 0`},
		{user + "transfer_up = -1\n", `:5:15: users.transfer_up: cannot be negative`},
		{user + "transfer_up = 'all'\n", `:5:15: users.transfer_up: invalid size "all"`},
		{user + "transfer_period = 'week'\n",
			`:5:19: users.transfer_period: "week": must be day or month`},
		{user + "refuse_names = ['']\n", `:5:17: users.refuse_names: "" is no pattern for names`},
		{user + "refuse_names = ['*.[eE]x[eE']\n",
			`:5:17: users.refuse_names: "*.[eE]x[eE" is no pattern for names: matches nothing`},
		{user + "refuse_names = '*.exe'\n",
			`:5:16: users.refuse_names: must be a list in brackets`},
		{"[audit]\nhashes = 'yes'\n" + user, `:2:10: audit.hashes: must be true or false`},
		{user + "folders = 3\n",
			`:5:11: users.folders: must be tables, each headed by [[users.folders]]`},
		{user + "[[users.folders]]\npath = 'in'\n",
			`:6:8: users.folders.path: "in" is no path of a folder`},
		{user + "[[users.folders]]\npath = '/'\n",
			`:6:8: users.folders.path: "/" is no path of a folder`},
		{user + "[[users.folders]]\npath = '/a/../b'\n",
			`:6:8: users.folders.path: "/a/../b" is no path of a folder`},
		{user + "[[users.folders]]\nread_only = true\n", `:5: path: a folder needs a path`},
		{user + "folders = [{read_only = true}]\n", `:5: folders: a folder needs a path`},
		{user + "[[users.folders]]\npath = '/a'\n[[users.folders]]\npath = '/A'\n",
			`:8: path: another folder has this path`},
		{user + "[[users.folders]]\npath = '/a'\nquota_files = 3\n",
			`:6: path: only a folder with a root has a quota of its own`},
		{user + "[[users.folders]]\npath = '/a'\nroot = 'none'\n",
			`:7: root: ` + filepath.Join(dir, "none") + `: no such file`},
		{user + "[[users.folders]]\npath = '/a'\nroot = 's3://'\n",
			`:7: root: "s3://" names no bucket`},
		{user + "[[users.folders]]\npath = '/a'\ndeny = ['fly']\n",
			`:7:9: users.folders.deny: unknown request "fly"`},
		{user + "[[users.folders]]\npath = '/a'\nfly = 1\n",
			`:7: unknown setting "users.folders.fly"`},
		{strings.ReplaceAll(user, `"u"`, `"v"`) + "[[users.folders]]\npath = '/a'\n" + user +
			"[[users.folders]]\npath = '/a'\nroot = 'none'\n",
			`:13: root: ` + filepath.Join(dir, "none") + `: no such file`},
		{"[groups.g]\n[[groups.g.folders]]\npath = '/a'\nroot = 'none'\n" + user + "group = 'g'\n",
			`:4: root: ` + filepath.Join(dir, "none") + `: no such file`},
		{"[groups.g]\nquota_bytes = 'much'\n" + user, `:2:15: groups.g.quota_bytes: invalid size "much"`},
		{"[groups.g]\nname = 'x'\n" + user, `:2: unknown setting "groups.g.name"`},
		{"[groups.'a b']\nsessions = 1\n" + user, `:1: groups.a b: "a b" is no name for a group`},
		{"[groups.g]\nroot = 's3://'\n" + user, `:2: root: "s3://" names no bucket`},
		{"groups = 3\n" + user, `:1:10: groups: must be tables, each headed by [groups.`},
		{"[groups.g]\nroot = 'x/%u'\n[[users]]\nname = '../u'\ngroup = 'g'\nkeys = ['" + key +
			"']\n", `:2: root: user "../u" cannot have a root with %u`},
		{strings.Replace(user, `"."`, `"file"`, 1),
			`:3: root: ` + filepath.Join(dir, "file") + `: not a directory`},
		{"[[users]]\nname = 'u'\nroot = '.'\nkeys = ['id.pub']\n",
			`:4:9: users.keys: no key: write the line itself, or name its file in authorized_keys`},
		{user + "umask = 022\n", `:5:9: integers cannot have leading zeroes: use quotes, as in umask = "022"`},
		{"[[users]]\nname = 'u'\nroot = '.'\nkeys = ['command=\"ls\" " + key + "']\n",
			`:4:9: users.keys: command: the key is refused`},
		{"[[users]]\nname = 'u'\nroot = '.'\nauthorized_keys = 'none'\n",
			`:4: authorized_keys: ` + filepath.Join(dir, "none") + `: no such file`},
		{"[[users]]\nname = 'u'\nroot = '.'\npassword = 'hunter2'\n", `:4:12: `},
		{user + "allow = ['fly']\n", `:5:10: users.allow: unknown request "fly"; use open, `},
		{user + "umask = '999'\n", `:5:9: users.umask: must be an octal number up to 777`},
		{user + "quota_bytes = 'much'\n", `:5:15: users.quota_bytes: invalid size "much"`},
		{user + "bandwidth = '0MB'\n", `:5:13: users.bandwidth: invalid size "0MB"`},
		{user + "sessions = 1.5\n", `:5:12: `},
		{"users = [{name = 'u'}]\n", `:1: root: user u needs a directory`},
		{"hooks = 3\n" + user, `:1:9: hooks: must be tables, each headed by [[hooks]]`},
		{user + hook + "on = ['fly']\n",
			`:7:7: hooks.on: unknown event "fly"; use uploaded, downloaded, renamed, removed, login, `},
		{user + hook + "on = ['accept', 'login']\nclamd = '/s'\n",
			`:7: on: a hook that is asked is told of nothing else`},
		{user + hook + "on = ['accept']\nclamd = '/s'\nurl = 'http://h/'\n",
			`:6: name: hook h needs one of url, command and, for accept, clamd`},
		{user + hook + "on = ['login']\nclamd = '/s'\n", `:8: clamd: clamd can only accept`},
		{user + hook + "on = ['accept']\nclamd = 'tcp://host'\n",
			`:8:9: hooks.clamd: clamd is at the path of its socket, or at tcp://HOST:PORT`},
		{user + hook + "on = ['accept']\nclamd = '/s'\nunchecked = 'hope'\n",
			`:9:13: hooks.unchecked: "hope": must be refuse or accept`},
		{user + hook + "on = ['login']\nurl = 'http://h/'\nmax_size = '1MB'\n",
			`:7: on: max_size and unchecked are for accept`},
		{user + hook + "on = ['accept']\nclamd = '/s'\ngive_up = '1h'\n",
			`:9: give_up: accept is asked once: set timeout`},
		{user + hook, `:5: on: hook h needs events: uploaded, `},
		{user + "[[hooks]]\nname = 'A b'\n", `:6: name: "A b" is no name for a hook: use a-z`},
		{user + hook + "on = ['login']\ncommand = ['true']\n" + hook,
			`:10: name: hook "h" already exists`},
		{user + hook + "on = ['login']\n",
			`:6: name: hook h needs one of url, command and, for accept, clamd`},
		{user + hook + "on = ['login']\nurl = 'file:///etc/passwd'\n",
			`:8:7: hooks.url: a hook's URL is https://HOST/PATH`},
		{user + hook + "on = ['login']\ncommand = ['none-such']\n",
			`:8: command: none-such: executable file not found`},
		{user + hook + "on = ['login']\ncommand = ['./file']\n",
			`:8: command: ` + filepath.Join(dir, "file") + `: permission denied`},
		{user + hook + "on = ['login']\ncommand = ['true']\nsecret = 'file'\n",
			`:9: secret: only what is posted to a url is signed`},
		{user + hook + "on = ['login']\nurl = 'http://h/'\nsecret = 'file'\n",
			`:9: secret: others can read ` + filepath.Join(dir, "file")},
		{user + hook + "on = ['login']\nurl = 'http://h/'\nsecret = 'short'\n",
			`:9: secret: ` + filepath.Join(dir, "short") + `: a secret of fewer than 16 bytes`},
		{user + hook + "on = ['login']\nurl = 'http://h/'\ntimeout = 'soon'\n",
			`:9:11: hooks.timeout: "soon" is not a valid time`},
	} {
		name := filepath.Join(dir, "usftpd.toml")
		writeFile(t, name, []byte(c.text))
		made, err := readConfig(name)
		for i := 0; err == nil && i < len(made.Users); i++ {
			err = made.Users[i].Problem // found by a check, and when the user logs in
		}
		if want := name + strings.ReplaceAll(c.says, "NAME", name); err == nil ||
			!strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s\ngives the error\n%v\nwant\n%s", c.text, err, want)
		} else if strings.Contains(err.Error(), "hunter2") ||
			strings.Contains(err.Error(), "toml") && strings.Contains(err.Error(), "toml:") &&
				!strings.Contains(err.Error(), "usftpd.toml:") {
			t.Errorf("the error says too much: %v", err)
		}
	}
}

// TestRulesNeedASystem: where a system cannot keep links in, rules of parts of a directory are an
// error of the configuration, and not a promise that does not hold.
func TestRulesNeedASystem(t *testing.T) {
	t.Parallel()
	in := []site.Folder{{Path: "/in"}}
	for want, one := range map[string]site.Account{
		"folders":      {Root: "/srv", Folders: in, RefusedNames: []string{"*.exe"}},
		"refuse_names": {Root: "/srv", RefusedNames: []string{"*.exe"}},
		"":             {Root: "/srv"},
	} {
		if key, err := keptIn(&one, false); key != want || (err != nil) != (want != "") {
			t.Errorf("%+v: %q, %v; want %q", one, key, err, want)
		}
		if key, err := keptIn(&one, true); key != "" || err != nil {
			t.Errorf("%+v on Linux: %q, %v", one, key, err)
		}
	}
	objects := site.Account{Root: "s3://bucket/x", Folders: in}
	if key, err := keptIn(&objects, false); err != nil {
		t.Errorf("object storage: %q, %v", key, err)
	}
	objects.Folders = append(objects.Folders, site.Folder{Path: "/d", Root: "/srv/d"})
	if key, _ := keptIn(&objects, false); key != "folders" {
		t.Errorf("a directory in object storage: %q", key)
	}
	groups := map[string]*groupTable{"g": {Root: "/srv/%u", Folders: []folderTable{
		{Path: pathText{checked{"/in"}}}}}}
	for _, can := range []bool{true, false} {
		_, err := storedUser(&store.User{Name: "ann", Group: "g"}, groups, can)
		if (err == nil) != can {
			t.Errorf("a user of the store, links are kept in: %t: %v", can, err)
		}
	}
}

// TestPrefixesOfMappedAddresses: IPv4 addresses may be written as IPv6, as no client has them.
func TestPrefixesOfMappedAddresses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"::ffff:192.0.2.7": "192.0.2.7/32",
		"::ffff:192.0.2.7/120": "192.0.2.0/24", "::ffff:0:0/96": "0.0.0.0/0",
		"192.0.2.7/24": "192.0.2.0/24", "2001:db8::7/32": "2001:db8::/32"} {
		if got, err := parsePrefix(text); err != nil || got.String() != want {
			t.Errorf("%s is %s, %v; want %s", text, got, err, want)
		}
	}
}

// TestErrorsOfUnquotedValues: an error about a setting says where it is, whatever kind of value it
// has, and wherever the setting may be.
func TestErrorsOfUnquotedValues(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "usftpd.toml")
	at := regexp.MustCompile("^" + regexp.QuoteMeta(file) + `:\d+:`)
	text := reflect.TypeFor[encoding.TextUnmarshaler]()
	tried := 0
	var settings func(of reflect.Type, table, value string)
	settings = func(of reflect.Type, table, value string) {
		for field := range of.Fields() {
			name, kind, list := field.Tag.Get("toml"), field.Type, false
			if kind.Kind() == reflect.Slice {
				kind, list = kind.Elem(), true
			}
			if kind.Kind() == reflect.Pointer {
				kind = kind.Elem()
			}
			switch {
			case reflect.PointerTo(kind).Implements(text):
				tried++
				is := value
				if list {
					is = "[" + value + "]"
				}
				writeFile(t, file, []byte(table+name+" = "+is+"\n"))
				if _, err := readConfig(file); err != nil && !at.MatchString(err.Error()) {
					t.Errorf("%s%s = %s: %v", table, name, is, err)
				}
			case kind.Kind() == reflect.Map:
				settings(kind.Elem().Elem(), "["+name+".g]\n", value)
			case kind.Kind() == reflect.Struct && field.Anonymous:
				settings(kind, table, value)
			case kind.Kind() == reflect.Struct && list && table != "":
				settings(kind, table+"[["+strings.Trim(table, "[]\n")+"."+name+"]]\n", value)
			case kind.Kind() == reflect.Struct && list:
				settings(kind, "[["+name+"]]\n", value)
			case kind.Kind() == reflect.Struct:
				settings(kind, "["+name+"]\n", value)
			}
		}
	}
	for _, value := range []string{"5", "5.5", "-1", "true", "2027-01-31", "12:00:00"} {
		settings(reflect.TypeFor[serveFile](), "", value)
	}
	if tried < 300 {
		t.Errorf("only %d settings", tried)
	}
}

// TestOneRootManySpellings: users of one directory share its quota however their roots are spelled.
func TestOneRootManySpellings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "usftpd.toml")
	text := ""
	for i, root := range []string{dir, dir + "/", "//" + dir + "/.", ".", "x/.."} {
		text += fmt.Sprintf("[[users]]\nname = 'u%d'\nroot = '%s'\npassword = '%s'\n", i, root,
			"$2y$05$abcdefghijklmnopqrstuuXyZ0123456789ABCDEFGHIJKLMNOPQRS")
	}
	writeFile(t, file, []byte(text))
	made, err := readConfig(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range made.Users {
		if user.Root != dir {
			t.Errorf("%s has the root %s, not %s", user.Name, user.Root, dir)
		}
	}
}
