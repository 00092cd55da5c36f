//go:build unix

package daemon

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/servetest"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/service/internal/hooks"
	"github.com/usftp/usftp/service/internal/hooks/clamdtest"
	"github.com/usftp/usftp/service/internal/store/storetest"
)

// nextEvent returns the next event of a kind.
func nextEvent(t *testing.T, came <-chan hooks.Event, kind hooks.Kind) hooks.Event {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		select {
		case e := <-came:
			if e.Kind == kind {
				return e
			}
		case <-deadline:
			t.Fatalf("no event %s comes", kind)
		}
	}
}

// put uploads a file.
func put(t *testing.T, client *usftp.Client, name string, data []byte) error {
	t.Helper()
	f, err := client.Create(name)
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(data, 0); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// TestHooks: a web service hears of all that happens, also if the server is killed between the
// change and the delivery.
func TestHooks(t *testing.T) {
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		testHooks(t, "")
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		testHooks(t, "[store]\nurl = \""+storetest.Postgres(t)+"\"\n")
	})
}

// receiver starts a web service for hooks, which answers with a status, and returns its URL and the
// events that it got.
func receiver(t *testing.T, status func() int) (url string, came chan hooks.Event) {
	t.Helper()
	came = make(chan hooks.Event, 100)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var e hooks.Event
		if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
			t.Error(err)
		}
		w.WriteHeader(status())
		came <- e
	}))
	t.Cleanup(s.Close)
	return s.URL, came
}

func testHooks(t *testing.T, store string) {
	var open atomic.Bool
	service, came := receiver(t, func() int {
		if open.Load() {
			return http.StatusOK
		}
		return http.StatusServiceUnavailable
	})
	home, key, file := configWith(t, store+`
[[hooks]]
name = "all"
on = ["uploaded", "downloaded", "renamed", "removed", "login"]
url = "`+service+`"
timeout = "2s"
[[hooks]]
name = "broken"
on = ["removed"]
command = ["false"]
give_up = "1ms"
`)
	s := servetest.Start(t, home, "usftpd", "--config", file)
	client := aliceOn(t, from(t, s, "192.0.2.10"), key)
	if err := put(t, client, "f", []byte("text")); err != nil {
		t.Fatal(err)
	}
	first := nextEvent(t, came, hooks.Uploaded)
	s.Wait("a hook fails; events wait", func(f map[string]any) bool { return f["hook"] == "all" })
	s.Cmd.Process.Kill()
	<-s.Ended
	open.Store(true)
	for len(came) > 0 {
		<-came
	}

	s = servetest.Start(t, home, "usftpd", "--config", file, "--metrics=127.0.0.1:0")
	again := nextEvent(t, came, hooks.Uploaded)
	if again.ID != first.ID || again.File != filepath.Join(home, "alice", "f") ||
		again.Written != 4 ||
		again.User != "alice" || !strings.HasPrefix(again.Remote, "192.0.2.10:") {
		t.Errorf("delivered %+v, tried before %+v", again, first)
	}
	client = aliceOn(t, from(t, s, "192.0.2.11"), key)
	defer client.Close()
	if e := nextEvent(t, came, hooks.Login); e.User != "alice" {
		t.Errorf("%+v", e)
	}
	f, err := client.Open("f")
	if err == nil {
		_, err = io.ReadAll(f)
		f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	if e := nextEvent(t, came, hooks.Downloaded); e.Path != "/f" || e.Read != 4 {
		t.Errorf("%+v", e)
	}
	if err := client.Rename("f", "g"); err != nil {
		t.Fatal(err)
	}
	if e := nextEvent(t, came, hooks.Renamed); e.Path != "/f" || e.To != "/g" ||
		e.ToFile != filepath.Join(home, "alice", "g") {
		t.Errorf("%+v", e)
	}
	if err := client.Remove("g"); err != nil {
		t.Fatal(err)
	}
	if e := nextEvent(t, came, hooks.Removed); e.Path != "/g" || e.Unconfirmed {
		t.Errorf("%+v", e)
	}

	dead := regexp.MustCompile(`^(\w+)  broken  [\d-]+ [\d:]+  removed  alice  /g  1 tries  ` +
		`\S*false: exit status 1`)
	var found []string
	testenv.Until(t, "a dead letter", func() bool {
		found = dead.FindStringSubmatch(do(t, home, file, "", "hooks list"))
		return found != nil
	})
	if out := do(t, home, file, "", "hooks replay", found[1]); out != "1 to be delivered again\n" {
		t.Errorf("replay says %q", out)
	}
	testenv.Until(t, "it is dead again", func() bool {
		return dead.MatchString(do(t, home, file, "", "hooks list"))
	})
	if out := do(t, home, file, "", "hooks drop", "broken"); out != "1 dropped\n" {
		t.Errorf("drop says %q", out)
	}
	if out := do(t, home, file, "", "hooks list"); out != "" {
		t.Errorf("what is left: %q", out)
	}
	metrics := func() string {
		response, err := http.Get(s.Greeting["metrics"])
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		return string(text)
	}
	for _, line := range []string{`usftp_hooks_total{hook="broken",outcome="dead"} 2`,
		`usftp_hooks_total{hook="all",outcome="delivered"} `, `usftp_hooks_waiting{hook="all"} `,
		"usftp_store_statements_total "} {
		// The store knows before it is counted.
		testenv.Until(t, "the metrics have "+line, func() bool {
			return strings.Contains(metrics(), line)
		})
	}
}

// TestHooksUntilTheEnd: hooks hear of what happens after the server was asked to end, as long as
// sessions run.
func TestHooksUntilTheEnd(t *testing.T) {
	t.Parallel()
	service, came := receiver(t, func() int { return http.StatusOK })
	home, key, file := configWith(t, "[[hooks]]\nname = \"told\"\non = [\"uploaded\"]\nurl = \""+
		service+"\"\n")
	s := servetest.Start(t, home, "usftpd", "--config", file, "--grace=2m")
	client := aliceOn(t, from(t, s, "192.0.2.10"), key)
	s.Cmd.Process.Signal(syscall.SIGTERM)
	s.Wait("shutting down", nil)
	if err := put(t, client, "f", []byte("text")); err != nil {
		t.Fatal(err)
	}
	if e := nextEvent(t, came, hooks.Uploaded); e.Path != "/f" {
		t.Errorf("%+v", e)
	}
	client.Close()
	s.End(syscall.Signal(0), 0)
}

// TestHookExamples: the examples do what they say.
func TestHookExamples(t *testing.T) {
	t.Parallel()
	python := testenv.Program(t, "python3")
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(testenv.FreePort(t))
	home, key, file := configWith(t, `
[[hooks]]
name = "move-on"
on = ["uploaded"]
command = ["`+examples+`/move-on", "incoming/.."]
[[hooks]]
name = "receiver"
on = ["uploaded", "login"]
url = "http://127.0.0.1:`+port+`/"
secret = "hook.secret"
`)
	incoming := filepath.Join(home, "incoming")
	if err := os.Mkdir(incoming, 0o755); err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(readFile(t, file)), "incoming/..", incoming, 1)
	writeFile(t, file, []byte(text))
	secret := filepath.Join(home, "hook.secret")
	if err := os.WriteFile(secret, []byte("0123456789abcdef0123456789abcdef\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	receiver := exec.CommandContext(t.Context(), python, examples+"/receiver.py", secret, port)
	receiver.Stderr = t.Output()
	printed, err := receiver.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := receiver.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { receiver.Process.Kill(); receiver.Wait() })

	s := servetest.Start(t, home, "usftpd", "--config", file)
	client := aliceOn(t, from(t, s, "192.0.2.10"), key)
	defer client.Close()
	if err := put(t, client, "a name", []byte("text")); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(printed)
	kinds := map[hooks.Kind]hooks.Event{}
	for len(kinds) < 2 && lines.Scan() {
		var e hooks.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		kinds[e.Kind] = e
	}
	if e := kinds[hooks.Uploaded]; e.Path != "/a name" || len(kinds) != 2 {
		t.Errorf("the receiver got %+v", kinds)
	}
	response, err := http.Post("http://127.0.0.1:"+port+"/", "application/json",
		strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusForbidden {
		t.Errorf("the receiver answers what is not signed with %s", response.Status)
	}

	var moved []string
	testenv.Until(t, "the file is moved", func() bool {
		moved, _ = filepath.Glob(incoming + "/*.a name")
		return len(moved) == 1
	})
	servetest.Same(t, []byte("text"), moved[0])
	// Who is told twice moves nothing twice.
	id := strings.TrimSuffix(filepath.Base(moved[0]), ".a name")
	writeFile(t, filepath.Join(home, "alice", "a name"), []byte("newer"))
	cmd := exec.Command(examples+"/move-on", incoming)
	cmd.Env = append(os.Environ(), "USFTP_ID="+id, "USFTP_PATH=/a name",
		"USFTP_FILE="+filepath.Join(home, "alice", "a name"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	servetest.Same(t, []byte("text"), moved[0])
}

// TestHooksWithoutStore: what could not be remembered is not promised.
func TestHooksWithoutStore(t *testing.T) {
	t.Parallel()
	home, _, file := configWith(t,
		"[[hooks]]\nname = \"h\"\non = [\"login\"]\ncommand = [\"true\"]\n")
	served := strings.Replace(string(readFile(t, file)), `root = "alice"`, `root = "."`, 1)
	writeFile(t, file, []byte(served))
	got := run(t, home, "", "--config", file)
	if got.code != 1 || !strings.Contains(got.stderr, "hooks need a store") {
		t.Errorf("%+v", got)
	}
}

// TestAcceptExample: with the example of clamd, a file with a virus does not appear, and OpenSSH's
// sftp says why; without clamd no file does.
func TestAcceptExample(t *testing.T) {
	t.Parallel()
	home, key, file, bucket := withObjects(t)
	example := strings.Replace(string(readFile(t, "../../examples/clamd.toml")),
		"/run/clamav/clamd.ctl", clamdtest.Start(t), 1)
	text := string(readFile(t, file))
	writeFile(t, file, []byte(text+example))
	writeFile(t, filepath.Join(home, "good"), randomData(500_000))
	writeFile(t, filepath.Join(home, "bad"), []byte("a "+clamdtest.Virus))
	s := servetest.Start(t, home, "usftpd", "--config", file)
	if out, err := s.SFTP("alice", key, "put good\nget good back\n"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	servetest.Same(t, randomData(500_000), filepath.Join(home, "back"))
	out, err := s.SFTP("alice", key, "put bad\n")
	if err == nil || !strings.Contains(out, "refused by clamd: Usftp.Test.UNOFFICIAL") &&
		!strings.Contains(out, "Permission denied") {
		t.Errorf("%v\n%s", err, out)
	}
	s.Wait("file failed", func(f map[string]any) bool {
		return f["path"] == "/bad" && f["error"] == "refused by clamd: Usftp.Test.UNOFFICIAL"
	})
	if _, err := bucket.Head(t.Context(), "some/prefix/bad"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the virus is there: %v", err)
	}
	s.End(syscall.SIGTERM, 0)

	writeFile(t, file, []byte(text+string(readFile(t, "../../examples/clamd.toml"))))
	s = servetest.Start(t, home, "usftpd", "--config", file)
	if out, err := s.SFTP("alice", key, "put good second\n"); err == nil {
		t.Errorf("without clamd a file appears:\n%s", out)
	}
	s.Wait("a file could not be checked",
		func(f map[string]any) bool { return f["hook"] == "clamd" })
}

// TestAcceptNeedsHiding: a directory whose files are seen while they are written is not served.
func TestAcceptNeedsHiding(t *testing.T) {
	t.Parallel()
	home, key, file := configWith(t, "[[hooks]]\nname = \"h\"\non = [\"accept\"]\nclamd = \"/s\"\n")
	s := servetest.Start(t, home, "usftpd", "--config", file)
	client := aliceOn(t, from(t, s, "192.0.2.10"), key)
	if err := put(t, client, "f", []byte("text")); err == nil {
		t.Error("without clamd a file appears")
	}
	client.Close()
	if _, err := os.Stat(filepath.Join(home, "alice", "f")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is there: %v", err)
	}
	s.End(syscall.SIGTERM, 0)
	writeFile(t, file, append([]byte("uploads = \"in-place\"\n"), readFile(t, file)...))
	got := run(t, home, "", "--config", file)
	if got.code != 1 || !strings.Contains(got.stderr, "before they are checked") {
		t.Errorf("%+v", got)
	}
}

// TestHookOfAKilledUpload: a server that is killed after the client has closed a file, and before
// it could say what came of that, leaves an event that says so.
func TestHookOfAKilledUpload(t *testing.T) {
	t.Parallel()
	scanner, err := net.Listen("tcp", "127.0.0.1:0") // which never answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { scanner.Close() })
	service, came := receiver(t, func() int { return http.StatusOK })
	home, key, file, _ := withObjects(t)
	writeFile(t, file, append(readFile(t, file), `
[[hooks]]
name = "clamd"
on = ["accept"]
clamd = "tcp://`+scanner.Addr().String()+`"
[[hooks]]
name = "told"
on = ["uploaded"]
url = "`+service+`"
`...))
	writeFile(t, filepath.Join(home, "f"), []byte("text"))
	s := servetest.Start(t, home, "usftpd", "--config", file)
	ended := make(chan error)
	go func() {
		_, err := s.SFTP("alice", key, "put f\n")
		ended <- err
	}()
	conn, err := scanner.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	s.Cmd.Process.Kill()
	<-s.Ended
	if err := <-ended; err == nil {
		t.Error("the client takes the file for stored")
	}
	if len(came) > 0 {
		t.Errorf("told before it happened: %+v", <-came)
	}
	servetest.Start(t, home, "usftpd", "--config", file)
	if e := nextEvent(t, came, hooks.Uploaded); !e.Unconfirmed || e.Path != "/f" ||
		e.File != "s3://bucket/some/prefix/f" {
		t.Errorf("%+v", e)
	}
}

// TestHookForNobody: a hook for a user who does not exist is worth a warning, since the name may be
// misspelt.
func TestHookForNobody(t *testing.T) {
	t.Parallel()
	home, key := servetest.HomeWithKey(t)
	file, _, _ := writeConfig(t, home, key, `host_keys = ["host_key"]
[store]
file = "store.db"
[[hooks]]
name = "scanner"
on = ["accept"]
users = ["alice", "bobb", "carol"]
command = ["true"]
`)
	do(t, home, file, "", "user add", "--root", "alice", "--key", key+".pub", "carol")
	got := run(t, home, "", "check", "--config", file)
	warned := strings.Count(got.stderr, "a hook is for a user who does not exist")
	if got.code != 0 || warned != 1 || !strings.Contains(got.stderr, "user=bobb") {
		t.Errorf("%+v", got)
	}
}
