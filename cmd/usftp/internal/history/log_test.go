package history

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/internal/localfs"
)

// TestMain is also a process that writes some entries.
func TestMain(m *testing.M) {
	if name := os.Getenv("HISTORY_TEST_WRITER"); name != "" {
		lockWait = time.Minute // on a busy machine, the others may need more than two seconds
		for i := range writes {
			e := Entry{Time: time.Now(), Command: "cp", Sources: []string{fmt.Sprint(name, "-", i)}}
			if err := e.Write(); err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const writers, writes = 8, 50

// useLog gives the test a log of its own.
func useLog(t *testing.T) (name string) {
	t.Helper()
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("USFTP_HISTORY", "")
	return file()
}

// TestManyWriters: processes that write at once lose nothing, also where the older half is dropped
// meanwhile.
func TestManyWriters(t *testing.T) {
	name := useLog(t)
	old := strings.Repeat(`{"v":1,"time":"2020-01-01T00:00:00Z","command":"old"}`+"\n", mostBytes/54)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	before, err := Read()
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var running []*exec.Cmd
	for i := range writers {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), fmt.Sprintf("HISTORY_TEST_WRITER=w%d", i))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		running = append(running, cmd)
	}
	for _, cmd := range running {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	after, err := Read()
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]int)
	for _, e := range after {
		if e.Command == "cp" {
			seen[e.Sources[0]]++
		}
	}
	if len(seen) != writers*writes || len(after)-len(seen) > len(before)/2+1 ||
		len(after)-len(seen) < len(before)/3 {
		t.Errorf("there are %d new entries and %d of %d old ones", len(seen), len(after)-len(seen),
			len(before))
	}
	info, err := os.Stat(name)
	if err != nil || info.Size() > mostBytes ||
		runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("the log has %d bytes and the mode %v, %v", info.Size(), info.Mode(), err)
	}
	others, _ := filepath.Glob(filepath.Join(filepath.Dir(name), ".*"))
	if len(others) > 0 {
		t.Errorf("there is also %q", others)
	}
}

// TestLogIsLocked: where somebody else keeps the lock, the writers of a process wait for it once.
func TestLogIsLocked(t *testing.T) {
	name := useLog(t)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	lock, err := localfs.OpenPrivate(name + ".lock")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if !localfs.TryLock(lock) {
		t.Fatal("it is locked")
	}
	defer func() { within.vain = false }()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		for range 100 {
			if err := (Entry{Time: began, Command: "cp"}).Write(); err == nil {
				t.Fatal("it was written to")
			}
		}
		if waited := time.Since(began); waited < lockWait || waited > lockWait+time.Second {
			t.Errorf("100 writers have waited for %v", waited)
		}
	})
}

// TestTorn: what a killed writer left costs only its own line.
func TestTorn(t *testing.T) {
	name := useLog(t)
	first := Entry{Time: time.Now(), Command: "cp", Sources: []string{"a"}, Target: "b"}
	if err := first.Write(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, torn := range []string{"x", string(text[:len(text)/2]), "\x00\x00\x00", `{"v":1}`,
		strings.Repeat("z", 100_000)} {
		if err := os.WriteFile(name, append(slices.Clone(text), torn...), 0o600); err != nil {
			t.Fatal(err)
		}
		second := Entry{Time: time.Now(), Command: "sync", Sources: []string{"c"}}
		if err := second.Write(); err != nil {
			t.Fatal(err)
		}
		got, err := Read()
		if err != nil || len(got) != 2 || got[0].Command != "cp" || got[1].Command != "sync" {
			t.Errorf("after %.20q: %+v, %v", torn, got, err)
		}
	}
}

// TestEntriesAreShort: no operands, however long or many, make a long line.
func TestEntriesAreShort(t *testing.T) {
	name := useLog(t)
	e := Entry{Time: time.Now(), Command: "cp", Target: strings.Repeat("\x01", 1<<20),
		Sources: slices.Repeat([]string{strings.Repeat("\x02", 1<<20)}, 10_000)}
	if err := e.Write(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(name)
	if err != nil || info.Size() > mostBytes/10 {
		t.Errorf("it has %d bytes, %v", info.Size(), err)
	}
	got, err := Read()
	if err != nil || len(got) != 1 || got[0].More != 10_000-mostSources ||
		strings.ContainsRune(got[0].text(), '\n') {
		t.Errorf("%d entries, %v", len(got), err)
	}
}
