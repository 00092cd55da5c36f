//go:build unix

package daemon

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/servetest"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/server/objectfs"
	"github.com/usftp/usftp/service/internal/s3bucket"
	"github.com/usftp/usftp/service/internal/s3bucket/s3test"
	"github.com/usftp/usftp/service/internal/store"
	"github.com/usftp/usftp/service/internal/store/storetest"
)

// A fault is what happens to a node, at which moment of what its client does.
type fault struct {
	number int
	change string
	kind   string
	which  string // of the moments
	at     int
	after  bool
	while  time.Duration
}

func (f fault) String() string {
	when := "before"
	if f.after {
		when = "after"
	}
	return fmt.Sprintf("%s; %s %s %q %d, for %s", f.change, f.kind, when, f.which, f.at, f.while)
}

// changes are what clients do, and how often their node asks for what changes something.
var changes = []struct {
	name  string
	asked map[string]int
}{
	{"short", map[string]int{whole: 1, commit: 4, statement: 5, "": 16}},
	{"short over", map[string]int{whole: 1, commit: 4, statement: 5, "": 16}},
	{"long", map[string]int{begin: 1, part: 3, complete: 1, commit: 5, statement: 7, "": 24}},
	{"long over", map[string]int{begin: 1, part: 3, complete: 1, commit: 5, statement: 7, "": 24}},
	{"temporary", map[string]int{begin: 1, part: 3, complete: 1, commit: 6, statement: 9, "": 34}},
	{"rename", map[string]int{copied: 1, deleted: 1, commit: 2, statement: 5, "": 18}},
	{"remove", map[string]int{deleted: 1, commit: 2, statement: 4, "": 10}},
	{"login", map[string]int{whole: 1, commit: 4, statement: 7, "": 20}}, // and a short file
}

var faultKinds = []string{"kill", "kill", "cut", "storage pauses", "storage breaks", "store pauses",
	"store breaks", "partition", "stop", "sleep", "sleep"}

// faultsOf returns faults: a node is killed before and after each request that changes something,
// the store breaks at each statement of a login and an upload, and everything else happens at
// random moments.
func faultsOf(n int, seed uint64, whiles ...time.Duration) (all []fault) {
	random := rand.New(rand.NewPCG(seed, 0))
	for _, change := range changes {
		for _, which := range slices.Sorted(maps.Keys(change.asked)) {
			for at := range 2 * change.asked[which] {
				f := fault{change: change.name, kind: "kill", which: which, at: at / 2,
					after: at%2 == 1}
				if which != "" {
					all = append(all, f)
				}
				if change.name == "login" && (which == statement || which == commit) {
					f.kind, f.while = "store breaks", whiles[len(whiles)/2]
					all = append(all, f)
				}
			}
		}
	}
	for i := range max(n-len(all), len(all)) {
		change := changes[i%len(changes)]
		f := fault{change: change.name, kind: faultKinds[i/len(changes)%len(faultKinds)],
			at: random.IntN(change.asked[""]), after: random.IntN(2) == 0,
			while: whiles[min(int(random.ExpFloat64()*1.2), len(whiles)-1)]}
		if f.kind == "partition" || f.kind == "sleep" {
			f.while = 25 * time.Second // longer than it takes for a node to be dead
		}
		all = append(all, f)
	}
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	all = all[:n]
	for i := range all {
		all[i].number = i
	}
	return all
}

// TestFaults: at each moment of a change a node is killed or stopped, its client cut, the storage
// or the store paused or broken, or the node sleeps or is parted from the store until others take
// it for dead. Nothing that is truncated is ever seen, what a client was told is done is there for
// all nodes and has its event, no user has more sessions and nobody escapes a ban on another node,
// and in the end quotas are right and no upload is left. USFTP_FAULTS is the number of faults,
// USFTP_FAULTS_SEED chooses them.
func TestFaults(t *testing.T) {
	t.Parallel()
	n, seed := 10, uint64(time.Now().UnixNano())
	if text := os.Getenv("USFTP_FAULTS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	if text := os.Getenv("USFTP_FAULTS_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("USFTP_FAULTS_SEED=%d", seed)
	const atOnce = 24
	whiles := []time.Duration{time.Second, 3 * time.Second}
	if n > atOnce {
		whiles = []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second,
			20 * time.Second, 45 * time.Second, 120 * time.Second}
	}
	all := faultsOf(n, seed, whiles...)
	endpoint, address := s3test.Storage(t, "bucket"), storetest.Postgres(t)
	for batch := 0; len(all) > 0; batch++ { // a server of a test runs for five minutes at most
		some := all[:min(atOnce, len(all))]
		all = all[len(some):]
		t.Run(fmt.Sprint("batch", batch), func(t *testing.T) {
			newFaults(t, endpoint, address, batch, some).run(some)
		})
	}
}

// TestStoreBreaksAtEachPoint: before and after each statement of a login and an upload the store is
// gone for three seconds. What TestFaults says holds, and so no place of a session is lost.
func TestStoreBreaksAtEachPoint(t *testing.T) {
	t.Parallel()
	var some []fault
	for _, f := range faultsOf(1000, 0, 3*time.Second) {
		if f.kind == "store breaks" && f.which != "" {
			f.number = len(some)
			some = append(some, f)
		}
	}
	newFaults(t, s3test.Storage(t, "bucket"), storetest.Postgres(t), 0, some).run(some)
}

// faults is a service of many nodes, of which some have faults.
type faults struct {
	*testing.T
	home, key   string
	endpoint    string
	storeURL    string
	prefix      string
	bucket      *s3bucket.Bucket
	store       *store.Store
	sound       *servetest.Server
	hook        string
	signer      ssh.Signer
	old, short  []byte
	long, again []byte

	mu     sync.Mutex
	events map[string]map[string]bool // IDs, by user, kind and path
}

// mostSessions is how many sessions each user may have.
const mostSessions = 4

// bannedAddress is one that is banned, on all nodes.
const bannedAddress = "192.0.2.66"

func newFaults(t *testing.T, endpoint, address string, batch int, some []fault) *faults {
	data := randomData(11<<20 + 300_000)
	f := &faults{T: t, endpoint: endpoint, prefix: fmt.Sprintf("batch%d", batch),
		old:   data[:50_000],
		short: data[1 : 1+100_000], long: data[2 : 2+11<<20], again: data[3 : 3+70_000],
		events: map[string]map[string]bool{}}
	f.home, f.key = servetest.HomeWithKey(t)
	db, err := sql.Open("pgx", address)
	f.must(err)
	_, err = db.Exec("CREATE DATABASE " + f.prefix)
	f.must(errors.Join(err, db.Close()))
	f.storeURL = address + "&dbname=" + f.prefix
	f.signer, err = ssh.ParsePrivateKey(readFile(t, f.key))
	f.must(err)
	f.must(os.WriteFile(filepath.Join(f.home, "s3.keys"), []byte("[default]\naws_access_key_id = "+
		s3test.AccessKey+"\naws_secret_access_key = "+s3test.SecretKey+"\n"), 0o600))
	f.bucket, err = s3bucket.New("bucket", s3bucket.Config{Endpoint: endpoint, Region: "us-east-1",
		PathStyle: true, AccessKey: s3test.AccessKey, SecretKey: s3test.SecretKey})
	f.must(err)
	receiver := httptest.NewServer(http.HandlerFunc(f.receive))
	t.Cleanup(receiver.Close)
	f.hook = receiver.URL
	f.store, err = store.Open(t.Context(), f.storeURL, slog.New(slog.DiscardHandler))
	f.must(err)
	t.Cleanup(func() { f.store.Close() })
	for _, one := range some {
		f.must(f.store.PutUser(t.Context(), store.User{Name: one.user(), Root: f.root(one),
			Keys:       []string{string(ssh.MarshalAuthorizedKey(f.signer.PublicKey()))},
			QuotaBytes: 10 << 30, Sessions: mostSessions}, false))
	}
	f.sound = f.start(t, "sound", endpoint, f.storeURL)
	do(t, f.home, filepath.Join(f.home, "sound.toml"), "", "ban add", bannedAddress)
	return f
}

func (f *faults) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f fault) user() string                { return fmt.Sprint("user", f.number) }
func (f *faults) root(one fault) string     { return "s3://bucket/" + f.prefixOf(one) }
func (f *faults) prefixOf(one fault) string { return f.prefix + "/" + one.user() }

// start starts a node.
func (f *faults) start(t *testing.T, name, endpoint, storeURL string) *servetest.Server {
	file := filepath.Join(f.home, name+".toml")
	writeFile(t, file, fmt.Appendf(nil, `listen = ["127.0.0.1:0"]
host_keys = ["host_key"]
proxy_protocol = ["127.0.0.1"]
grace = "1s"
[store]
url = %q
[storage]
endpoint = %q
region = "us-east-1"
path_style = true
keys = "s3.keys"
[[hooks]]
name = "all"
on = ["uploaded", "renamed", "removed"]
url = %q
`, storeURL, endpoint, f.hook))
	return servetest.Start(t, f.home, "usftpd", "--config", file)
}

// receive notes the events of hooks.
func (f *faults) receive(_ http.ResponseWriter, r *http.Request) {
	var e struct{ ID, Kind, User, Path, To string }
	if json.NewDecoder(r.Body).Decode(&e) != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, path := range []string{e.Path, e.To} {
		what := e.User + " " + path
		if f.events[what] == nil {
			f.events[what] = map[string]bool{}
		}
		f.events[what][e.ID] = true
	}
}

func (f *faults) eventsOf(one fault) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.events[one.user()+" /file"])
}

// connect opens a session of a user on a node; cut ends it as a network does.
func (f *faults) connect(t *testing.T, s *servetest.Server, one fault) (c *usftp.Client, cut func(),
	err error) {
	conn, err := net.Dial("tcp", "127.0.0.1:"+s.Port)
	if err != nil {
		return nil, nil, err
	}
	cut = func() { conn.Close() }
	io.WriteString(conn, "PROXY TCP4 192.0.2.10 192.0.2.1 4711 22\r\n")
	secure, channels, requests, err := ssh.NewClientConn(conn, "", &ssh.ClientConfig{
		User: one.user(), Auth: []ssh.AuthMethod{ssh.PublicKeys(f.signer)},
		HostKeyCallback: ssh.InsecureIgnoreHostKey()})
	if err == nil {
		c, err = usftp.NewClient(ssh.NewClient(secure, channels, requests))
	}
	if err != nil {
		cut()
	}
	return c, cut, err
}

// enter connects to a node that has just started, as connect does, and tries again until the node
// has heard of the store and so knows its users. On a busy machine that takes a while.
func (f *faults) enter(t *testing.T, s *servetest.Server, one fault) (c *usftp.Client, cut func()) {
	t.Helper()
	testenv.Until(t, "the node lets its user in", func() bool {
		var err error
		c, cut, err = f.connect(t, s, one)
		return err == nil
	})
	return c, cut
}

// on runs something in a session of its own.
func (f *faults) on(t *testing.T, s *servetest.Server, one fault,
	do func(c *usftp.Client) error) error {
	c, cut, err := f.connect(t, s, one)
	if err != nil {
		return err
	}
	defer cut()
	defer c.Close()
	return do(c)
}

func putFile(c *usftp.Client, name string, data []byte) error {
	file, err := c.Create(name)
	if err != nil {
		return err
	}
	if _, err := file.WriteAt(data, 0); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}

func getFile(c *usftp.Client, name string) ([]byte, error) {
	file, err := c.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(file)
}

// prepare makes what a change begins with; it returns the file before and after it.
func (f *faults) prepare(c *usftp.Client, change string) (before, after []byte, err error) {
	switch change {
	case "short":
		return nil, f.short, nil
	case "short over", "login":
		return f.old, f.short, putFile(c, "/file", f.old)
	case "long":
		return nil, f.long, nil
	case "long over", "temporary":
		return f.old, f.long, putFile(c, "/file", f.old)
	case "rename":
		return f.old, f.short, errors.Join(putFile(c, "/file", f.old),
			putFile(c, "/other", f.short))
	}
	return f.old, nil, putFile(c, "/file", f.old)
}

// begin is prepare on the sound node.
func (f *faults) begin(t *testing.T, one fault) (before, after []byte) {
	t.Helper()
	testenv.Until(t, "what it begins with", func() bool {
		return f.on(t, f.sound, one, func(c *usftp.Client) (err error) {
			before, after, err = f.prepare(c, one.change)
			return err
		}) == nil
	})
	return before, after
}

// change is what the client does.
func change(c *usftp.Client, what string, after []byte) error {
	switch what {
	case "temporary":
		if err := putFile(c, "/file.filepart", after); err != nil {
			return err
		}
		return c.PosixRename("/file.filepart", "/file")
	case "rename":
		return c.PosixRename("/other", "/file")
	case "remove":
		return c.Remove("/file")
	}
	return putFile(c, "/file", after)
}

// repeat does a change once more, by a client that knows nothing of the first time. It returns what
// there is to be then, and the number of events of it.
func (f *faults) repeat(c *usftp.Client, one fault, after []byte) (want []byte, events int,
	err error) {
	switch one.change {
	case "remove":
		if err := c.Remove("/file"); !errors.Is(err, fs.ErrNotExist) {
			return nil, 1, err
		}
		return nil, 0, nil
	case "rename":
		if _, err := c.Stat("/other"); err == nil {
			return after, 1, c.PosixRename("/other", "/file")
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, 0, err
		}
		return after, 0, nil
	case "long":
		// What was kept of it is gone on with.
		file, err := c.OpenFile("/file", os.O_WRONLY|os.O_CREATE, 0o644)
		if err != nil {
			return nil, 0, err
		}
		info, err := file.Stat()
		if err == nil && info.Size() < int64(len(after)) {
			_, err = file.WriteAt(after[info.Size():], info.Size())
		}
		if err != nil {
			c.Close() // so that it is abandoned
			return nil, 0, err
		}
		return after, 1, file.Close()
	}
	return f.again, 1, putFile(c, "/file", f.again)
}

// target is the name of which a change makes or deletes the object.
func (f fault) target() string {
	if f.change == "rename" {
		return "/other"
	}
	return "/file"
}

// see returns what a node has under "/file", or another name. A file that is replaced while it is
// read fails.
func (f *faults) see(t *testing.T, s *servetest.Server, one fault, name ...string) (data []byte) {
	t.Helper()
	testenv.Until(t, "the file is read", func() bool {
		err := f.on(t, s, one, func(c *usftp.Client) (err error) {
			data, err = getFile(c, append(name, "/file")[0])
			if errors.Is(err, fs.ErrNotExist) || isUnfinished(err) {
				data, err = nil, nil
			}
			return err
		})
		return err == nil
	})
	return data
}

// isUnfinished reports whether reading has failed since there is only an unfinished upload.
func isUnfinished(err error) bool {
	return err != nil && strings.Contains(err.Error(), "has not been completed")
}

// run runs all faults at once, and checks what is left in the end.
func (f *faults) run(some []fault) {
	var running sync.WaitGroup
	for _, one := range some {
		running.Go(func() { f.T.Run(fmt.Sprint(one.number), func(t *testing.T) { f.one(t, one) }) })
	}
	running.Wait()
	if !f.Failed() {
		f.end(some)
	}
}

// one runs one fault.
func (f *faults) one(t *testing.T, one fault) {
	t.Log(one)
	g := &gate{}
	node := f.start(t, one.user(), g.proxyStorage(t, f.endpoint), g.proxyStore(t, f.storeURL))
	before, after := f.begin(t, one)
	least := 0
	if before != nil {
		least++
	}
	testenv.Until(t, "the first event", func() bool { return f.eventsOf(one) >= least })
	client, cut := f.enter(t, node, one)
	defer cut()
	g.arm(one.which, one.at, one.after, func() (gone bool) {
		switch one.kind {
		case "kill":
			node.Cmd.Process.Kill()
			<-node.Ended
		case "sleep": // as a virtual machine that is moved
			node.Cmd.Process.Signal(syscall.SIGSTOP)
			time.AfterFunc(one.while, func() { node.Cmd.Process.Signal(syscall.SIGCONT) })
		case "stop": // as for an upgrade: it has a second to finish
			node.Cmd.Process.Signal(syscall.SIGTERM)
		case "cut":
			cut()
		case "storage pauses", "storage breaks":
			time.AfterFunc(one.while, g.storage.stop(one.kind == "storage breaks"))
		default:
			time.AfterFunc(one.while, g.store.stop(one.kind != "store pauses"))
		}
		return one.kind == "kill"
	})
	told := make(chan error, 1)
	do := func() error { return change(client, one.change, after) }
	if one.change == "login" {
		do = func() error {
			return f.on(t, node, one, func(c *usftp.Client) error {
				return putFile(c, "/file", after)
			})
		}
	}
	go func() { told <- do() }()

	// Others look while the change is made, and after it.
	looked, stop := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(looked)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			f.whole(t, one, f.see(t, f.sound, one), before, after)
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	}()
	err := <-told
	hit := g.disarm()
	close(stop)
	<-looked
	t.Logf("%s at %s; the client is told: %v", one.kind, hit, err)
	now := f.see(t, f.sound, one)
	f.whole(t, one, now, before, after)
	made := bytes.Equal(now, after) && !bytes.Equal(before, after)
	if err == nil && !made {
		t.Errorf("the client was told that all is well, and others see %d bytes", len(now))
	}
	f.refused(t, one, f.sound)
	if one.kind == "kill" {
		f.limited(t, one, node)
	}

	// The client goes on elsewhere.
	var want []byte
	repeated, began := 0, time.Now()
	patience := testenv.Patience(t)
	for again := time.NewTicker(500 * time.Millisecond); ; <-again.C {
		if err = f.on(t, f.sound, one, func(c *usftp.Client) (err error) {
			want, repeated, err = f.repeat(c, one, after)
			return err
		}); err == nil {
			break
		}
		if time.Since(began) > patience {
			t.Fatalf("the client cannot go on elsewhere: %v", err)
		}
	}
	if got := f.see(t, f.sound, one); !bytes.Equal(got, want) {
		t.Errorf("after it was repeated: %d bytes, want %d", len(got), len(want))
	}
	cut()
	if one.kind == "stop" {
		<-node.Ended
		if code := node.Cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("the node that was stopped has ended with %d", code)
		}
	}
	node.End(syscall.SIGTERM, 0)
	if got := f.see(t, f.sound, one); !bytes.Equal(got, want) {
		t.Errorf("after the node has ended: %d bytes, want %d", len(got), len(want))
	}
	if least += repeated; made {
		least++
	}
	testenv.Until(t, fmt.Sprintf("%d events, of which there are %d", least, f.eventsOf(one)), func() bool {
		return f.eventsOf(one) >= least
	})
}

// TestPartedNode: a node that is parted from the store while its client uploads loses the right to
// write. It does not overwrite what another node has written since, though it hears of the store
// again before its client closes the file.
func TestPartedNode(t *testing.T) {
	t.Parallel()
	one := fault{}
	f := newFaults(t, s3test.Storage(t, "bucket"), storetest.Postgres(t), 0, []fault{one})
	g := &gate{}
	node := f.start(t, "parted", g.proxyStorage(t, f.endpoint), g.proxyStore(t, f.storeURL))
	client, cut := f.enter(t, node, one)
	defer cut()
	file, err := client.Create("/file")
	f.must(err)
	const half = 10_000 // an upload in parts ends when another one begins, but this is one PUT
	_, err = file.WriteAt(f.short[:half], 0)
	f.must(err)
	start := g.store.stop(true)
	node.Wait("the store does not answer", nil)
	testenv.Until(t, "another node may write", func() bool {
		return f.on(t, f.sound, one, func(c *usftp.Client) error {
			return putFile(c, "/file", f.again)
		}) == nil
	})
	const answers = `"the store answers"`
	before := strings.Count(node.Log.String(), answers) // at its start, and if it was busy
	start()
	testenv.Until(t, "the store answers again", func() bool {
		return strings.Count(node.Log.String(), answers) > before
	})
	_, err = file.WriteAt(f.short[half:], half)
	f.must(err)
	if err := file.Close(); err == nil || !strings.Contains(err.Error(), "another session") {
		t.Errorf("the node that has lost the right to write says: %v", err)
	}
	for _, s := range []*servetest.Server{f.sound, node} {
		if got := f.see(t, s, one); !bytes.Equal(got, f.again) {
			t.Errorf("%d bytes are there, want the %d of the other node", len(got), len(f.again))
		}
	}
	cut()
	node.End(syscall.SIGTERM, 0)
	f.end([]fault{one})
}

// TestHeldUpRequest: the request that makes or deletes an object is held up in the network while its
// node loses the right to write. It changes nothing when it arrives after another node's, which was
// closed well.
func TestHeldUpRequest(t *testing.T) {
	t.Parallel()
	users := []fault{{number: 0, which: whole, change: "short"},
		{number: 1, which: complete, change: "long"},
		{number: 2, which: deleted, change: "rename"},
		{number: 3, which: deleted, change: "remove"}}
	f := newFaults(t, s3test.Storage(t, "bucket"), storetest.Postgres(t), 0, users)
	var holding sync.WaitGroup
	for _, one := range users {
		holding.Go(func() { t.Run(one.change, func(t *testing.T) { f.heldUp(t, one) }) })
	}
	holding.Wait()
}

func (f *faults) heldUp(t *testing.T, one fault) {
	g := &gate{}
	node := f.start(t, one.user(), g.proxyStorage(t, f.endpoint), g.proxyStore(t, f.storeURL))
	_, after := f.begin(t, one)
	client, cut := f.enter(t, node, one)
	defer cut()
	name, held := one.target(), make(chan func(), 1)
	g.arm(one.which, 0, false, func() (gone bool) {
		g.store.stop(true)
		held <- g.storage.stop(false)
		return false
	})
	told := make(chan error, 1)
	go func() { told <- change(client, one.change, after) }()
	arrives := <-held
	testenv.Until(t, "another node may write", func() bool {
		return f.on(t, f.sound, one, func(c *usftp.Client) error {
			return putFile(c, name, f.again)
		}) == nil
	})
	arrives()
	if err := <-told; err == nil {
		t.Errorf("%s: the node that has lost the right to write says that all is well", one.change)
	}
	if got := f.see(t, f.sound, one, name); !bytes.Equal(got, f.again) {
		t.Errorf("%s: %d bytes are there, want the %d of the other node", one.change,
			len(got), len(f.again))
	}
	cut()
	node.End(syscall.SIGTERM, 0)
}

// TestSleepingNode: a node sleeps at a moment of a change until others have taken it for dead, and
// one of them has stored a file where it was at work. When it goes on it neither replaces nor
// deletes that.
func TestSleepingNode(t *testing.T) {
	t.Parallel()
	users := []fault{{change: "short", which: whole}, {change: "short", which: whole, after: true},
		{change: "long", which: complete}, {change: "long", which: complete, after: true},
		{change: "short over", which: commit}, {change: "short over", which: commit, after: true},
		{change: "temporary", which: complete, after: true},
		{change: "rename", which: copied, after: true}, {change: "rename", which: deleted},
		{change: "remove", which: deleted, after: true}}
	for i := range users {
		users[i].number = i
	}
	f := newFaults(t, s3test.Storage(t, "bucket"), storetest.Postgres(t), 0, users)
	var running sync.WaitGroup
	for _, one := range users {
		running.Go(func() { t.Run(one.String(), func(t *testing.T) { f.sleeps(t, one) }) })
	}
	running.Wait()
	if !t.Failed() {
		f.end(users)
	}
}

func (f *faults) sleeps(t *testing.T, one fault) {
	g := &gate{}
	node := f.start(t, one.user(), g.proxyStorage(t, f.endpoint), g.proxyStore(t, f.storeURL))
	_, after := f.begin(t, one)
	client, cut := f.enter(t, node, one)
	defer cut()
	asleep, told := make(chan struct{}), make(chan error, 1)
	g.arm(one.which, one.at, one.after, func() (gone bool) {
		node.Cmd.Process.Signal(syscall.SIGSTOP)
		close(asleep)
		return false
	})
	go func() { told <- change(client, one.change, after) }()
	<-asleep
	name := one.target()
	testenv.Until(t, "others have taken it for dead", func() bool {
		return !f.alive(node)
	})
	testenv.Until(t, "another node may write", func() bool {
		return f.on(t, f.sound, one, func(c *usftp.Client) error {
			return putFile(c, name, f.again)
		}) == nil
	})
	node.Cmd.Process.Signal(syscall.SIGCONT)
	t.Logf("its client is told: %v", <-told)
	for _, s := range []*servetest.Server{f.sound, node} {
		got := f.see(t, s, one, name)
		if !bytes.Equal(got, f.again) {
			t.Errorf("%d bytes are there, want the %d of the other node", len(got), len(f.again))
		}
	}
	cut()
	node.End(syscall.SIGTERM, 0)
}

// whole checks that a file is the old one or the new one.
func (f *faults) whole(t *testing.T, one fault, now, before, after []byte) {
	t.Helper()
	if !bytes.Equal(now, before) && !bytes.Equal(now, after) {
		t.Errorf("others see %d bytes, which are neither the old file nor the new one: "+
			"the first %d are the old one's, the first %d the new one's",
			len(now), common(now, before), common(now, after))
	}
}

// common returns how many bytes two files begin with that are the same.
func common(a, b []byte) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// refused checks that a banned address gets in nowhere.
func (f *faults) refused(t *testing.T, one fault, s *servetest.Server) {
	t.Helper()
	if _, _, _, err := ssh.NewClientConn(from(t, s, bannedAddress), "", &ssh.ClientConfig{
		User: one.user(), Auth: []ssh.AuthMethod{ssh.PublicKeys(f.signer)},
		HostKeyCallback: ssh.InsecureIgnoreHostKey()}); err == nil {
		t.Error("a banned address was let in")
	}
}

// limited checks that the session of a node that was killed counts until the others have buried the
// node, as long as the store has always answered both nodes: on a busy machine it may not.
func (f *faults) limited(t *testing.T, one fault, killed *servetest.Server) {
	t.Helper()
	for range mostSessions {
		c, cut, err := f.connect(t, f.sound, one)
		if err != nil {
			return
		}
		defer cut()
		defer c.Close()
	}
	if f.alive(killed) && !strings.Contains(f.sound.Log.String()+killed.Log.String(),
		"the store does not answer") {
		t.Errorf("%d sessions are open besides that of a killed node that is not buried yet",
			mostSessions)
	}
}

// alive reports whether the others have not buried a node.
func (f *faults) alive(s *servetest.Server) bool {
	f.Helper()
	db, err := sql.Open("pgx", f.storeURL)
	f.must(err)
	defer db.Close()
	counts := 0
	f.must(db.QueryRow(`SELECT count(*) FROM nodes WHERE node LIKE $1 AND seen > 0`,
		fmt.Sprintf("%%-%d-%%", s.Cmd.Process.Pid)).Scan(&counts))
	return counts > 0
}

// end checks what is left: no uploads, no sessions, and quotas that are equal to a recount.
func (f *faults) end(some []fault) {
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience(f.T))
	defer cancel()
	files := objectfs.New(f.bucket, &objectfs.Options{Prefix: f.prefix + "/",
		State: f.store.Objects("bucket")})
	db, err := sql.Open("pgx", f.storeURL)
	f.must(err)
	defer db.Close()
	count := func(query string) (n int) {
		f.must(db.QueryRow(query).Scan(&n))
		return n
	}
	testenv.Until(f.T, "the dead nodes are forgotten", func() bool {
		return count(`SELECT count(*) FROM nodes WHERE seen > 0`) == 2 &&
			count(`SELECT count(*) FROM uploads WHERE node <> ''`) == 0
	})
	f.must(files.Sweep(ctx, -time.Hour))
	started, _, err := f.bucket.ListUploads(ctx, f.prefix+"/", "")
	if err != nil || len(started) > 0 || count(`SELECT count(*) FROM uploads WHERE id <> ''`) > 0 {
		f.Errorf("uploads are left: %v, %v", started, err)
	}
	testenv.Until(f.T, "no session is left", func() bool {
		return count(`SELECT coalesce(sum(used), 0) FROM places`) == 0
	})
	testenv.Until(f.T, "no event waits", func() bool { return count(`SELECT count(*) FROM outbox`) == 0 })

	second := f.start(f.T, "second", f.endpoint, f.storeURL)
	testenv.Until(f.T, "the store answers all", func() bool {
		log := f.sound.Log.String()
		return strings.LastIndex(log, "the store answers") > strings.LastIndex(log,
			"the store does not answer")
	})
	f.sound.Cmd.Process.Signal(syscall.SIGHUP)
	type amount struct{ bytes, files int64 }
	counted := map[int]amount{}
	for _, one := range some {
		line := f.sound.Wait("quota counted", func(line map[string]any) bool {
			return line["root"] == f.root(one)
		})
		there := amount{}
		for token := ""; ; {
			page, err := f.bucket.List(ctx,
				objectfs.Query{Prefix: f.prefixOf(one) + "/", Token: token})
			f.must(err)
			for _, o := range page.Objects {
				there = amount{there.bytes + o.Size, there.files + 1}
			}
			if token = page.Next; token == "" {
				break
			}
		}
		counted[one.number] = there
		if now := (amount{int64(line["bytes"].(float64)),
			int64(line["files"].(float64))}); now != there {
			f.Errorf("%s: %v is counted, and there is %v", one, now, there)
		}
		if a, b := f.see(f.T, f.sound, one), f.see(f.T, second, one); !bytes.Equal(a, b) {
			f.Errorf("%s: %d bytes on one node, %d on another", one, len(a), len(b))
		}
		f.refused(f.T, one, second)
	}
	f.sound.End(syscall.SIGTERM, 0)
	second.End(syscall.SIGTERM, 0)
	for _, one := range some {
		var kept amount
		f.must(db.QueryRow(`SELECT bytes, files FROM quotas WHERE tree = $1`,
			f.root(one)).Scan(&kept.bytes, &kept.files))
		if kept != counted[one.number] {
			f.Errorf("%s: the store has %v, and there is %v", one, kept, counted[one.number])
		}
	}
}
