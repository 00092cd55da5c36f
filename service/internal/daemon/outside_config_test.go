package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOutsideErrors: what is wrong with who checks passwords is said with its file and line.
func TestOutsideErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"short": "x", "empty": "\n",
		"nopem": "no certificate"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, filepath.Join(dir, "open"), []byte("0123456789abcdef"))
	if err := os.Chmod(filepath.Join(dir, "open"), 0o644); err != nil {
		t.Fatal(err)
	}
	const (
		user = "[[users]]\nname = 'u'\nroot = '.'\npassword = 'outside'\n"
		ldap = user + "[ldap]\nurls = ['ldaps://h']\n"
		dn   = ldap + "dn = 'uid={user},dc=x'\n"
		hook = user + "[login_hook]\n"
		from = dn + "[[outside]]\n"
	)
	for _, c := range [][2]string{
		{user, `:4: password: outside of what?`},
		{user + "[[outside]]\nroot = '.'\n", `:5: name: nobody comes from outside`},
		{"outside = 3\n" + user, `:1:11: outside: must be tables, each headed by [[outside]]`},
		{"[passwords]\nmin_length = 1000\n" + user,
			`:2: passwords.min_length: at most 256 characters`},
		{"[passwords]\nmax_age = '1s'\n" + user, `:2: passwords.max_age: at least an hour`},
		{"[passwords]\nmax_age = '3w'\n" + user,
			`:2:11: passwords.max_age: "3w" is not a valid time: use a form such as 90d`},
		{user + "[ldap]\n", `:5: ldap.urls: a directory needs urls`},
		{user + "[ldap]\nurls = 'x'\n", `:6:8: ldap.urls: must be a list in brackets`},
		{user + "[ldap]\nurls = ['http://h']\n", `:6: ldap.urls: "http://h" is no directory`},
		{user + "[ldap]\nurls = ['ldap://h']\n", `:6: ldap.urls: ldap://h: passwords would cross`},
		{ldap, `:5: ldap.dn: a directory needs dn, or base and filter`},
		{ldap + "dn = 'uid=x'\n", `:7: ldap.dn: "uid=x" has no {user}`},
		{ldap + "dn = '{user}'\n", `:7: ldap.dn: "x" is no distinguished name`},
		{ldap + "base = 'dc=x'\n", `:5: ldap.filter: "" has no {user}`},
		{ldap + "base = 'dc=x'\nfilter = '(uid={user}'\n",
			`:8: ldap.filter: "(uid=x" is no filter`},
		{ldap + "base = 'x'\nfilter = '(uid={user})'\n", `:7: ldap.base: "x" is no distinguished`},
		{dn + "filter = '(uid={user})'\n", `:8: ldap.filter: with dn nothing is searched`},
		{dn + "group_base = 'x'\n", `:8: ldap.group_base: "x" is no distinguished name`},
		{dn + "group_filter = 'x'\n", `:8: ldap.group_filter: "x" is no filter`},
		{dn + "groups = ['x']\n", `:8: ldap.groups: "x" is no distinguished name`},
		{dn + "groups = []\n", `:8: ldap.groups: an empty list would allow everything`},
		{from + "allow_from = []\n", `:9: allow_from: an empty list would allow everything`},
		{dn + "ca = 'none'\n", `:8: ldap.ca: ` + filepath.Join(dir, "none") + `: no such file`},
		{dn + "ca = 'nopem'\n", `:8: ldap.ca: no certificate in ` + filepath.Join(dir, "nopem")},
		{dn + "search_dn = 'cn=s'\n", `:8: ldap.search_dn: search_dn and search_password go`},
		{ldap + "base = 'dc=x'\nfilter = '(uid={user})'\nsearch_dn = 'cn=s'\n" +
			"search_password = 'open'\n",
			`:10: ldap.search_password: others can read `},
		{ldap + "base = 'dc=x'\nfilter = '(uid={user})'\nsearch_dn = 'cn=s'\n" +
			"search_password = 'empty'\n",
			`:10: ldap.search_password: no password in `},
		{dn + "at_once = 1001\n", `:8: ldap.at_once: at most 1000`},
		{dn + "rate = 'x'\n", `:8:8: ldap.rate: must be a number`},
		{dn + "cache = 'x'\n", `:8:9: ldap.cache: "x" is not a valid time`},
		{dn + "timeout = '0s'\n", `:8:11: ldap.timeout: "0s" is not a valid time`},
		{dn + "[login_hook]\nurl = 'https://h'\n",
			`:8: login_hook: with [ldap] nobody else is asked`},
		{hook, `:5: login_hook.url: a login hook needs either url or command`},
		{hook + "url = 'http://h/'\n", `:6: login_hook.url: passwords would cross the network`},
		{hook + "url = 'ftp://h/'\n", `:6:7: login_hook.url: a hook's URL is https://HOST/PATH`},
		{hook + "url = 'https://h/'\ncommand = ['true']\n",
			`:6: login_hook.url: a login hook needs`},
		{hook + "command = ['none-such']\n",
			`:6: login_hook.command: none-such: executable file not`},
		{hook + "command = ['true']\nsecret = 'short'\n",
			`:7: login_hook.secret: only what is posted`},
		{hook + "url = 'https://h/'\nsecret = 'short'\n", `:7: login_hook.secret: `},
		{from, `:8: root: a directory is needed, such as`},
		{from + "root = '%u'\npassword = 'outside'\n", `:10: unknown setting "outside.password"`},
		{from + "root = '{user}'\n", `:9: root: in a root, the user's name is %u`},
		{from + "root = 'none/%u'\n", `:9: root: ` + filepath.Join(dir, "none") + `: no such file`},
		{from + "root = 'short/%u'\n", `:9: root: ` + filepath.Join(dir, "short")},
		{from + "group = 'g'\n", `:9: group: no group "g"`},
		{from + "root = '.'\nldap_group = 'x'\n", `:10: ldap_group: "x" is no distinguished name`},
		{from + "root = '.'\n[[outside]]\nroot = '.'\n", `:10: name: another [[outside]]`},
		{from + "root = '.'\nsecond_factor = 'sms'\n",
			`:10:17: outside.second_factor: "sms": must be totp or none`},
		{hook + "url = 'https://h/'\n[[outside]]\nroot = '.'\nldap_group = 'cn=x'\n",
			`:9: ldap_group: no [ldap] is configured`},
	} {
		name := filepath.Join(dir, "usftpd.toml")
		writeFile(t, name, []byte(c[0]))
		_, err := readConfig(name)
		if want := name + c[1]; err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s\ngives the error\n%v\nwant\n%s", c[0], err, want)
		}
	}
	for _, text := range []string{dn, hook + "command = ['true']\n", from + "root = '%u'\n",
		"[ldap]\nurls = ['ldapi:///run/ldapi', 'ldap://[::1]:1389']\ndn = 'uid={user}'\n" +
			"[[outside]]\nroot = 's3://bucket/%u'\n"} {
		name := filepath.Join(dir, "usftpd.toml")
		writeFile(t, name, []byte(text))
		if _, err := readConfig(name); err != nil {
			t.Errorf("%s\ngives the error\n%v", text, err)
		}
	}
}

// TestRootsOfNewcomers: no name leads out of the place that a root has for it, or to another's.
func TestRootsOfNewcomers(t *testing.T) {
	t.Parallel()
	at := func(root string) (t template) {
		t.Root = root
		return t
	}
	for _, name := range []string{"", ".", "..", ".ssh", "a/b", "../a", `a\b`, `..\a`, "c:",
		"a\x00b", "a\nb", "a ", " a", "a.", "*", "a?", "con|", "\xff", strings.Repeat("a", 256)} {
		if one, err := at("/srv/%u/data").account(name); err == nil {
			t.Errorf("%q gets %s", name, one.Root)
		}
	}
	for root, want := range map[string]string{"/srv/%u": "/srv/ann.b-c@d", "/srv/all": "/srv/all",
		"/srv/%u/%u": "/srv/ann.b-c@d/ann.b-c@d", "s3://b/p/%u": "s3://b/p/ann.b-c@d"} {
		if one, err := at(root).account("ann.b-c@d"); err != nil || one.Root != want {
			t.Errorf("%s becomes %s, %v", root, one.Root, err)
		}
	}
	if one, err := at("/srv/%u").account("%u"); err != nil || one.Root != "/srv/%u" {
		t.Errorf("%s, %v", one.Root, err)
	}
}
