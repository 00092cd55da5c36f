//go:build unix

package daemon

import (
	"cmp"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/servetest"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/server/sshd"
	"github.com/usftp/usftp/service/internal/store/storetest"
)

// configWith writes a configuration of a user "alice" with a key and a quota.
func configWith(t *testing.T, more string) (home, key, file string) {
	t.Helper()
	home, key = servetest.HomeWithKey(t)
	file, _, _ = writeConfig(t, home, key, `proxy_protocol = ["127.0.0.1"]
host_keys = ["host_key"]
[bans]
address_failures = 8`)
	text := strings.Replace(string(readFile(t, file)), "[[users]]", more+"\n[[users]]", 1)
	writeFile(t, file, []byte(text))
	return home, key, file
}

// from connects to a node as the balancer does for a client.
func from(t *testing.T, s *servetest.Server, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", "127.0.0.1:"+s.Port)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	family := "TCP4"
	if strings.Contains(address, ":") {
		family = "TCP6"
	}
	fmt.Fprintf(conn, "PROXY %s %s %s 4711 22\r\n", family, address, address)
	return conn
}

// login logs in with a password, which may be wrong, and opens a session.
func login(t *testing.T, s *servetest.Server, address, user, password string) (*usftp.Client,
	error) {
	t.Helper()
	secure, channels, requests, err := ssh.NewClientConn(from(t, s, address), "",
		&ssh.ClientConfig{User: user, Auth: []ssh.AuthMethod{ssh.Password(password)},
			HostKeyCallback: ssh.InsecureIgnoreHostKey(), Timeout: time.Minute})
	if err != nil {
		return nil, err
	}
	client, err := usftp.NewClient(ssh.NewClient(secure, channels, requests))
	if err != nil {
		secure.Close()
	}
	return client, err
}

// getBanned makes an address fail until it is banned.
func getBanned(t *testing.T, nodes []*servetest.Server, address string) {
	t.Helper()
	for i := range 13 { // a little is forgiven in the meantime
		s := nodes[i%len(nodes)]
		conn := from(t, s, address)
		_, _, _, err := ssh.NewClientConn(conn, "", &ssh.ClientConfig{User: "alice",
			Auth:            []ssh.AuthMethod{ssh.PublicKeys(stranger(t))},
			HostKeyCallback: ssh.InsecureIgnoreHostKey()})
		if err == nil {
			t.Fatal("a stranger was let in")
		}
	}
}

func stranger(t *testing.T) ssh.Signer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// do runs usftpd with arguments, and returns what it prints.
func do(t *testing.T, home, file, stdin, command string, args ...string) string {
	t.Helper()
	words := append(strings.Fields(command), append([]string{"--config", file}, args...)...)
	got := run(t, home, stdin, words...)
	if got.code != 0 {
		t.Fatalf("usftpd %s: %+v", strings.Join(words, " "), got)
	}
	return got.stdout
}

// TestUserOfTheFile: the commands do not say that they have changed a user who is in the file, too,
// which decides.
func TestUserOfTheFile(t *testing.T) {
	t.Parallel()
	home, key, file := configWith(t, "[store]\nfile = \"store.db\"")
	for _, words := range [][]string{{"user", "add", "--root", "alice", "--key", key + ".pub"},
		{"user", "disable"}} {
		for range 2 {
			got := run(t, home, "", append(words, "--config", file, "alice")...)
			if got.code != 1 || !strings.Contains(got.stderr, "the configuration file has") {
				t.Errorf("%q: %+v", words, got)
			}
		}
	}
}

// TestStoreThatIsNotThere: commands that only look, or keep somebody out, neither make a store nor
// say that all is well; and one that root makes belongs to the owner of its directory, as whom the
// server runs.
func TestStoreThatIsNotThere(t *testing.T) {
	t.Parallel()
	home, key, file := configWith(t, "[store]\nfile = \"state/store.db\"")
	state, owner := filepath.Join(filepath.Dir(file), "state"), os.Getuid()
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	if owner == 0 {
		owner = 65534
		if err := os.Chown(state, owner, owner); err != nil {
			t.Fatal(err)
		}
	}
	name := filepath.Join(state, "store.db")
	for _, command := range []string{"user list", "user disable carol", "ban list", "totp list"} {
		got := run(t, home, "", append(strings.Fields(command), "--config", file)...)
		if got.code != 1 || !strings.Contains(got.stderr, "there is no store "+name+": start the") {
			t.Errorf("%s: %+v", command, got)
		}
	}
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("they have made a store: %v", err)
	}
	do(t, home, file, "", "user add", "--root", t.TempDir(), "--key", key+".pub", "carol")
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if is := localfs.OwnerOf(info); is.UID != owner || info.Mode() != 0o600 {
		t.Errorf("the store belongs to %d and has the mode %v, want %d", is.UID, info.Mode(), owner)
	}
	if list := do(t, home, file, "", "user list"); !strings.Contains(list, "carol") {
		t.Errorf("the users are %q", list)
	}
}

// TestStoreOfOneNode: without any set-up, bans and quota counts survive a restart, and users and
// bans can be managed while the server runs.
func TestStoreOfOneNode(t *testing.T) {
	t.Parallel()
	home, key, file := configWith(t, "")
	s := servetest.Start(t, home, "usftpd", "--config", file)
	client := aliceOn(t, from(t, s, "192.0.2.10"), key)
	f, err := client.Create("half")
	if err == nil {
		_, err = f.WriteAt(make([]byte, 600_000), 0)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	client.Close()
	getBanned(t, []*servetest.Server{s}, "192.0.2.7")
	s.End(syscall.SIGTERM, 0)
	if info, err := os.Stat(filepath.Join(home, ".local/state/usftp/usftpd.db")); err != nil ||
		info.Mode().Perm() != 0o600 {
		t.Errorf("the store: %v, %v", info, err)
	}
	// Nobody walks: what has been put there behind the server's back is not seen.
	writeFile(t, filepath.Join(home, "alice", "unseen"), make([]byte, 900_000))

	s = servetest.Start(t, home, "usftpd", "--config", file)
	if _, err := loginOn(t, from(t, s, "192.0.2.7"), key); err == nil {
		t.Error("the ban is forgotten")
	}
	client = aliceOn(t, from(t, s, "192.0.2.10"), key)
	defer client.Close()
	for _, one := range []struct {
		size int
		fits bool
	}{{500_000, false}, {300_000, true}} {
		f, err := client.Create("more")
		if err == nil {
			_, err = f.WriteAt(make([]byte, one.size), 0)
			f.Close()
		}
		if (err == nil) != one.fits {
			t.Errorf("%d bytes beside 600000 under a quota of 1 MB: %v", one.size, err)
		}
	}

	list := do(t, home, file, "", "ban list")
	// A user may be banned there as well: connections end in any order.
	if !regexp.MustCompile(`^(192\.0\.2\.7/32 +\d+m?\d*s( +alice)?\n){1,2}$`).MatchString(list) {
		t.Errorf("the bans: %q", list)
	}
	do(t, home, file, "", "ban lift", "192.0.2.7")
	testenv.Until(t, "the ban is lifted", func() bool {
		c, err := loginOn(t, from(t, s, "192.0.2.7"), key)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	do(t, home, file, "", "ban add", "--for", "1h", "192.0.2.7")
	testenv.Until(t, "the added ban holds", func() bool {
		c, err := loginOn(t, from(t, s, "192.0.2.7"), key)
		if err == nil {
			c.Close()
		}
		return err != nil
	})

	if err := os.Mkdir(filepath.Join(home, "carol"), 0o755); err != nil {
		t.Fatal(err)
	}
	do(t, home, file, "secret\n", "user add", "--root", filepath.Join(home, "carol"),
		"--key", key+".pub", "--password", "--sessions", "5", "carol")
	enters := func() bool {
		c, err := login(t, s, "192.0.2.11", "carol", "secret")
		if err == nil {
			c.Close()
		}
		return err == nil
	}
	testenv.Until(t, "carol is let in", enters)
	if out := do(t, home, file, "", "user list"); out !=
		fmt.Sprintf("carol  %s/carol  1 key, password, 5 sessions\n", home) {
		t.Errorf("the users: %q", out)
	}
	do(t, home, file, "", "user disable", "carol")
	testenv.Until(t, "carol is kept out", func() bool { return !enters() })
	do(t, home, file, "", "user enable", "carol")
	testenv.Until(t, "carol is let in again", enters)
	do(t, home, file, "", "user remove", "carol")
	testenv.Until(t, "carol is gone", func() bool { return !enters() })
}

// TestListsInJSON: programs get all that is known of users, but no hash of a password, and the bans.
func TestListsInJSON(t *testing.T) {
	t.Parallel()
	home, key, file := configWith(t, "[store]\nfile = \"store.db\"\n[groups.g]\nroot = \"alice\"")
	do(t, home, file, "secret\n", "user add", "--group", "g", "--key", key+".pub", "--password",
		"--read-only", "--quota-bytes", "10GB", "--quota-files", "7", "--bandwidth-up", "1MB",
		"--sessions", "5", "--expires", "2099-01-31", "--allow-from", "192.0.2.0/24",
		"--second-factor", "--must-change", "ann")
	do(t, home, file, "", "user disable", "ann")
	do(t, home, file, "secret\n", "user add", "--root", "bob", "--password", "bert")
	public, _ := json.Marshal(strings.TrimSpace(string(readFile(t, key+".pub"))))
	want := fmt.Sprintf(`^{"name":"ann","group":"g","keys":\[%s\],"disabled":true,"read_only":true,`+
		`"quota_bytes":10000000000,"quota_files":7,"bandwidth_up":1000000,"sessions":5,`+
		`"expires":"2099-01-31","allow_from":\["192.0.2.0/24"\],"password":"here",`+
		`"must_change":true,"second_factor":"totp"}
{"name":"bert","root":"[^"]*/bob","password_set":"[-0-9]*T[0-9:.]*Z","password":"here"}
$`, regexp.QuoteMeta(string(public)))
	if out := do(t, home, file, "", "user list", "--json"); !regexp.MustCompile(want).MatchString(out) {
		t.Errorf("the users:\n%s", out)
	}
	do(t, home, file, "", "ban add", "--for", "1h", "192.0.2.7")
	do(t, home, file, "", "ban add", "--for", "30m", "--user", "bert", "192.0.2.8")
	want = `^{"network":"192.0.2.7/32","seconds_left":3[56]\d\d}
{"network":"192.0.2.8/32","user":"bert","seconds_left":1[78]\d\d}
$`
	if out := do(t, home, file, "", "ban list", "--json"); !regexp.MustCompile(want).MatchString(out) {
		t.Errorf("the bans:\n%s", out)
	}
}

// TestStoreIsNotServed: nobody sees the store's file by logging in.
func TestStoreIsNotServed(t *testing.T) {
	t.Parallel()
	home, key, file := configWith(t, "")
	served := strings.Replace(string(readFile(t, file)), `root = "alice"`, `root = "."`, 1)
	writeFile(t, file, []byte(served))
	s := servetest.Start(t, home, "usftpd", "--config", file)
	line := s.Wait("there is no store: bans and quota counts end with the server", nil)
	if !strings.Contains(fmt.Sprint(line["error"]),
		home+"/.local/state/usftp/usftpd.db would be in ") {
		t.Errorf("the log says %v", line)
	}
	aliceOn(t, from(t, s, "192.0.2.10"), key).Close()

	named := strings.Replace(served, "[[users]]", "[store]\nfile = \"bob/s.db\"\n[[users]]", 1)
	writeFile(t, file, []byte(named))
	got := run(t, home, "", "--config", file)
	if got.code != 1 || !strings.Contains(got.stderr,
		"which is served: set another file in [store]") {
		t.Errorf("%+v", got)
	}

	// Nor by a user of the store.
	apart := strings.Replace(string(readFile(t, file)), `root = "."`, `root = "alice"`, 1)
	writeFile(t, file, []byte(strings.Replace(apart, "bob/s.db", "s.db", 1)))
	later := filepath.Join(home, "later")
	if err := os.Mkdir(later, 0o700); err != nil {
		t.Fatal(err)
	}
	do(t, home, file, "secret\n", "user add", "--root", later, "--password", "carol")
	if err := cmp.Or(os.Remove(later), os.Symlink(home, later)); err != nil {
		t.Fatal(err)
	}
	s = servetest.Start(t, home, "usftpd", "--config", file)
	s.Wait("a user is left out", func(f map[string]any) bool { return f["user"] == "carol" })
	if _, err := login(t, s, "192.0.2.11", "carol", "secret"); err == nil {
		t.Error("carol sees the store")
	}
}

// TestRefreshOfUsersAlone: a change of users puts nothing else into effect, such as host keys that
// have changed, or are gone, since the server has read them.
func TestRefreshOfUsersAlone(t *testing.T) {
	t.Parallel()
	home, key := servetest.HomeWithKey(t)
	file, alice, _ := writeConfig(t, home, key, "host_keys = ['host_key']\n"+
		"[bans]\nnever = ['127.0.0.1']\n[store]\nfile = 'store.db'")
	s := servetest.Start(t, home, "usftpd", "--config", file)
	hostKey := filepath.Join(home, "host_key")
	if err := os.Remove(hostKey); err != nil {
		t.Fatal(err)
	}
	do(t, home, file, "", "user add", "--root", alice, "--key", key+".pub", "carol")
	testenv.Until(t, "carol is let in", func() bool {
		conn, err := net.Dial("tcp", "127.0.0.1:"+s.Port)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, err = loginAs(t, conn, "carol", key)
		return err == nil
	})
	if _, err := os.Stat(hostKey); err == nil {
		t.Error("a new host key is made")
	}
}

// What cannot be done with the store is refused in one sentence.
func TestStoreUsage(t *testing.T) {
	t.Parallel()
	home, key, file := configWith(t, "[store]\nfile = \"store.db\"")
	with := func(command string) []string {
		return strings.Fields(strings.ReplaceAll(command, "C", "--config "+file))
	}
	do(t, home, file, "", "user add", "--root", "/usr", "--key", key+".pub", "ann")
	for command, says := range map[string]string{
		"user":                              "user needs a command",
		"user bogus":                        `unknown command "user bogus"`,
		"user list":                         "--config FILE is missing",
		"user add C":                        "usage: usftpd user add NAME",
		"user add C ann":                    "--root DIRECTORY is missing",
		"user add C --root / ann":           "ann has no way to log in",
		"user add C --root /none ann":       "cannot serve /none: ",
		"user add C --root / a:b":           `invalid user name "a:b"`,
		"user add C --root / --key " + file: "usage: usftpd user add NAME",
		"user add C --root / --key " + file + " dora":      file + ":",
		"user add C --root /usr --key " + key + ".pub ann": "user ann: there is a user of that name",
		"user add C --root / --key " + key + ".pub dora":   "cannot serve /: the store " + home,
		"user remove C bob":    "user bob: the store has no such user",
		"ban lift C 192.0.2.1": "192.0.2.1/32 is not banned",
		"ban add C 10.0.0.0/8": "10.0.0.0/8: bans are of one IPv4 address or one IPv6 " +
			"/64",
		"ban add C nonsense":            `"nonsense" is not an address`,
		"ban add C --for 1ms 192.0.2.1": "--for: a ban takes at least a second",

		"user add C --root / --allow-from= dora":   "--allow-from needs a value",
		"user add C --root / --expires= dora":      "--expires needs a value",
		"user add C --root / --quota-bytes= dora":  "--quota-bytes needs a value",
		"user add C --root / --quota-files 0 dora": "--quota-files needs a value other than 0",
		"user add C --root / --bandwidth-up= dora": "--bandwidth-up needs a value",
		"user add C --quota-files 4294967296 dora": "a number cannot be negative, nor that large",
	} {
		got := run(t, home, "", with(command)...)
		if got.code == 0 || !strings.HasPrefix(got.stderr, "usftpd: "+says) {
			t.Errorf("usftpd %s: %+v", command, got)
		}
	}
}

// TestAddWithHash: a hash that is given in place of a password is taken as it is, and one of a kind
// that the server does not know is not taken for a password, which everyone could use who has seen
// it. The word that means that others check the password is one like any other.
func TestAddWithHash(t *testing.T) {
	t.Parallel()
	home, _, file := configWith(t, "[store]\nfile = \"store.db\"")
	add := func(name, password string) outcome {
		return run(t, home, password+"\n", "user", "add", "--config", file, "--root", "/usr",
			"--password", name)
	}
	for _, hash := range []string{"$6$salt$hash", "$y$j9T$salt$hash", "$2y$05$short"} {
		if got := add("dora", hash); got.code == 0 ||
			!strings.Contains(got.stderr, "usftpd hash-password makes one") {
			t.Errorf("%s: %+v", hash, got)
		}
	}
	for name, password := range map[string]string{"ann": sshd.HashPassword("secret"),
		"carol": passwordOutside} {
		if got := add(name, password); got.code != 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if list := do(t, home, file, "", "user list"); strings.Count(list, "  password\n") != 2 {
		t.Errorf("the users:\n%s", list)
	}
}

// TestUsualStoreIsDamaged: a store that is there and cannot be used keeps the server from starting
// also if the file does not name it: without it nobody would be disabled there.
func TestUsualStoreIsDamaged(t *testing.T) {
	t.Parallel()
	home, _, file := configWith(t, "[login_hook]\ncommand = ['/bin/echo', '{\"accept\": true}']\n"+
		"[[outside]]\nname = 'all'\nroot = 'alice/%u'\n")
	do(t, home, file, "", "ban add", "192.0.2.9")
	do(t, home, file, "", "user disable ann")
	store := filepath.Join(home, ".local", "state", "usftp", "usftpd.db")
	if err := os.Truncate(store, 5000); err != nil {
		t.Fatal(err)
	}
	os.Remove(store + "-wal")
	for _, command := range [][]string{nil, {"check"}} {
		got := run(t, home, "", append(command, "--config", file)...)
		if got.code != 1 || !strings.Contains(got.stderr, "cannot use the store "+store+
			": its file is damaged: put a copy in its place: ") {
			t.Errorf("usftpd %s: %+v", command, got)
		}
	}
}

// TestStoreIsAway: a server starts without its PostgreSQL, with the users of its file, and a
// command says in one line what does not answer.
func TestStoreIsAway(t *testing.T) {
	t.Parallel()
	home, key, file := configWith(t, `[store]
url = "postgres://usftpd:very-secret@/usftpd?host=/none"`)
	s := servetest.Start(t, home, "usftpd", "--config", file)
	s.Wait("the store does not answer; starting without it", nil)
	aliceOn(t, from(t, s, "192.0.2.10"), key).Close()
	got := run(t, home, "", "user", "list", "--config", file)
	if got.code != 1 || !strings.HasPrefix(got.stderr,
		"usftpd: the store does not answer: PostgreSQL on /none: ") ||
		strings.Count(got.stderr, "\n") != 1 {
		t.Errorf("%+v", got)
	}
	if strings.Contains(got.stderr+s.Log.String(), "very-secret") {
		t.Error("the password is shown")
	}
}

// TestThreeNodes: the sessions of a user are limited over all nodes, a ban on one holds on all, a
// user is added for all, and what a node that was killed held is free after 15 s.
func TestThreeNodes(t *testing.T) {
	t.Parallel()
	home, key, file := configWith(t, `[store]
url = "`+storetest.Postgres(t)+`"`)
	text := string(readFile(t, file))
	writeFile(t, file, []byte(strings.Replace(text, `quota_bytes = "1MB"`,
		"quota_bytes = \"1MB\"\nsessions = 3", 1)))
	var nodes []*servetest.Server
	for range 3 {
		nodes = append(nodes, servetest.Start(t, home, "usftpd", "--config", file))
	}
	session := func(s *servetest.Server, address string) (*usftp.Client, error) {
		secure, err := loginOn(t, from(t, s, address), key)
		if err != nil {
			return nil, err
		}
		client, err := usftp.NewClient(secure)
		if err != nil {
			secure.Close()
		}
		return client, err
	}
	var clients []*usftp.Client
	for _, s := range nodes {
		client, err := session(s, "192.0.2.10")
		if err != nil {
			t.Fatal(err)
		}
		clients = append(clients, client)
	}
	// A node that the store does not answer, as on a machine that is too busy, counts by itself.
	answered := func() bool {
		return !slices.ContainsFunc(nodes, func(s *servetest.Server) bool {
			return strings.Contains(s.Log.String(), "the store does not answer")
		})
	}
	for i, s := range nodes {
		if _, err := session(s, "192.0.2.10"); err == nil && answered() {
			t.Errorf("a fourth session of three is open, on node %d", i)
		}
	}
	if answered() {
		nodes[0].Wait("session refused", nil)
	}

	for i, client := range clients { // 1 MB in all
		f, err := client.Create(fmt.Sprint("file", i))
		if err == nil {
			_, err = f.WriteAt(make([]byte, 400_000), 0)
			f.Close()
		}
		if (err == nil) != (i < 2) && answered() {
			t.Errorf("400 kB on node %d under a quota of 1 MB: %v", i, err)
		}
	}

	getBanned(t, nodes, "192.0.2.7")
	for i, s := range nodes {
		testenv.Until(t, fmt.Sprintf("the ban holds on node %d", i), func() bool {
			_, err := loginOn(t, from(t, s, "192.0.2.7"), key)
			return err != nil
		})
	}

	if err := os.Mkdir(filepath.Join(home, "carol"), 0o755); err != nil {
		t.Fatal(err)
	}
	do(t, home, file, "secret\n", "user add", "--root", filepath.Join(home, "carol"), "--password",
		"carol")
	for i, s := range nodes {
		testenv.Until(t, fmt.Sprintf("carol is let in by node %d", i), func() bool {
			c, err := login(t, s, "192.0.2.11", "carol", "secret")
			if err == nil {
				c.Close()
			}
			return err == nil
		})
	}

	killed := time.Now()
	nodes[0].Cmd.Process.Kill()
	<-nodes[0].Ended
	if _, err := session(nodes[1], "192.0.2.10"); err == nil &&
		time.Since(killed) < 10*time.Second && answered() {
		t.Error("the sessions of a node are free as soon as it is killed")
	}
	testenv.Until(t, "the killed node's session is free", func() bool {
		client, err := session(nodes[1], "192.0.2.10")
		if err == nil {
			client.Close()
		}
		return err == nil
	})
	// 15 s, five more until the others look, and the rest is for a busy machine.
	if took := time.Since(killed); took > time.Minute {
		t.Errorf("that took %s", took)
	}
}

// TestSessionsOfTheDisabledEnd: the sessions of a user of the store who is disabled or removed end
// on all nodes, and the command says how many there were; those of a user of the file end once it
// is read again. Others go on, as do those of a user who gets another key.
func TestSessionsOfTheDisabledEnd(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]string{"SQLite": "file = 'store.db'",
		"PostgreSQL": "url = '" + storetest.Postgres(t) + "'"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testSessionsOfTheDisabled(t, store)
		})
	}
}

func testSessionsOfTheDisabled(t *testing.T, store string) {
	home, key := servetest.HomeWithKey(t)
	file, alice, _ := writeConfig(t, home, key, "[store]\n"+store)
	one := servetest.Start(t, home, "usftpd", "--config", file)
	two := servetest.Start(t, home, "usftpd", "--config", file)
	begin := func(s *servetest.Server, user string) *usftp.Client {
		t.Helper()
		var client *usftp.Client
		testenv.Until(t, user+" is let in", func() bool {
			conn, err := net.Dial("tcp", "127.0.0.1:"+s.Port)
			if err != nil {
				t.Fatal(err)
			}
			secure, err := loginAs(t, conn, user, key)
			if err == nil {
				client, err = usftp.NewClient(secure)
			}
			return err == nil
		})
		return client
	}
	for _, name := range []string{"ann", "carol"} {
		do(t, home, file, "", "user add", "--root", alice, "--key", key+".pub", name)
	}
	bob, carol := begin(one, "bob"), begin(two, "carol")
	defer bob.Close()
	do(t, home, file, "", "user add --replace", "--root", alice, "--key", key+".pub", "carol")
	for _, command := range []string{"user disable ann", "user remove ann"} {
		do(t, home, file, "", "user enable ann")
		running := []*usftp.Client{begin(one, "ann"), begin(two, "ann"), begin(two, "ann")}
		if out := do(t, home, file, "", command); out != "3 sessions ended\n" {
			t.Errorf("%s: %q", command, out)
		}
		for _, client := range running {
			client.Wait()
		}
	}
	if out := do(t, home, file, "", "user disable carol"); out != "1 session ended\n" {
		t.Errorf("%q", out)
	}
	carol.Wait()

	text := string(readFile(t, file))
	for _, changed := range []string{
		strings.Replace(text, `name = "alice"`, "name = \"alice\"\ndisabled = true", 1),
		strings.Replace(text, `name = "alice"`, `name = "another"`, 1)} {
		client := begin(one, "alice")
		writeFile(t, file, []byte(changed))
		one.Cmd.Process.Signal(syscall.SIGHUP)
		client.Wait()
		writeFile(t, file, []byte(text))
		one.Cmd.Process.Signal(syscall.SIGHUP)
	}
	if _, err := bob.Stat("/"); err != nil {
		t.Errorf("bob's session: %v", err)
	}
}
