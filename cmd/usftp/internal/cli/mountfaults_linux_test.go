package cli

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/cutproxy"
	"github.com/usftp/usftp/internal/soak"
)

// faults returns how often a fault run breaks the link: a few times, or USFTP_FAULTS times.
func faults() int {
	if n, err := strconv.Atoi(os.Getenv("USFTP_FAULTS")); err == nil {
		return n
	}
	return soak.Pick(5, 12)
}

// breakLink cuts and stalls a link at random until it has done so n times.
func breakLink(link *cutproxy.Proxy, n int, stop <-chan struct{}) {
	random := rand.New(rand.NewPCG(1, 2))
	pause := func(most time.Duration) {
		select {
		case <-time.After(time.Duration(random.Int64N(int64(most)))):
		case <-stop:
		}
	}
	for range n {
		pause(2 * time.Second)
		switch random.IntN(3) {
		case 0:
			link.Cut()
		case 1:
			link.Stall()
			pause(time.Second)
			link.Restore()
		default:
			link.Stall()
			link.Cut()
			pause(2 * time.Second)
			link.Restore()
		}
	}
}

// The link is cut, stalled and restored at random while programs work. In the end everything that
// close has confirmed is there, and no call took longer than the timeout allows.
func TestMountFaults(t *testing.T) {
	t.Parallel()
	if !ownProcess(t) {
		return
	}
	const timeout, limit = 20 * time.Second, 20*time.Second + margin
	m, link := mountOverProxy(t, "--timeout", timeout.String())
	stop := make(chan struct{})
	var breaking, working sync.WaitGroup
	breaking.Go(func() { breakLink(link, faults(), stop) })
	over := make(chan struct{})
	go func() {
		breaking.Wait()
		close(over)
	}()
	rounds := func(each func(round int)) {
		for round := 0; ; round++ {
			each(round)
			select {
			case <-over:
				return
			default:
			}
		}
	}
	working.Go(func() { confirmedFiles(t, m, limit, rounds) })
	working.Go(func() { tarRounds(t, m, rounds) })
	if _, err := exec.LookPath("git"); err == nil {
		working.Go(func() { gitRounds(t, m, rounds) })
	}
	if os.Getenv("USFTP_FSX") != "" {
		working.Go(func() {
			whole := 0
			rounds(func(round int) {
				// What a call returns when the link was down for longer than it waits.
				if runFSX(t, m.path("fsx"), 300, round, syscall.EIO, syscall.ENOTCONN) {
					whole++
				}
			})
			t.Logf("%d rounds of fsx", whole)
			if whole == 0 {
				t.Error("no round of fsx was completed")
			}
		})
	}
	working.Wait()
	close(stop)
	breaking.Wait()
	t.Logf("%d connections", link.Connections())
}

// confirmedFiles writes files and compares those whose close has succeeded.
func confirmedFiles(t *testing.T, m *mounted, limit time.Duration, rounds func(func(int))) {
	confirmed := make(map[string][]byte)
	failures := 0
	rounds(func(round int) {
		name := fmt.Sprintf("confirmed%d", round%50)
		data := randomData(1 + round*7919%600_000)
		if err := writeWithin(t, limit, m.path(name), data); err != nil {
			failures++
			delete(confirmed, name)
			return
		}
		confirmed[name] = data
		if got, err := os.ReadFile(m.path(name)); err == nil && !bytes.Equal(got, data) {
			t.Errorf("%s is read otherwise", name)
		}
	})
	for name, data := range confirmed {
		if got, err := os.ReadFile(filepath.Join(m.far, name)); err != nil ||
			!bytes.Equal(got, data) {
			t.Errorf("%s was confirmed, and the host has %d of %d bytes: %v", name, len(got),
				len(data), err)
		}
	}
	t.Logf("%d files confirmed, %d failures told", len(confirmed), failures)
}

// writeWithin is os.WriteFile, and fails if a single call takes too long.
func writeWithin(t *testing.T, limit time.Duration, name string, data []byte) error {
	t.Helper()
	var f *os.File
	err := within(t, limit, "open", func() (err error) {
		f, err = os.Create(name)
		return err
	})
	if err != nil {
		return err
	}
	for piece := range slices.Chunk(data, 128<<10) { // what the kernel sends in one request
		if err == nil {
			err = within(t, limit, "write", func() error { _, err := f.Write(piece); return err })
		}
	}
	return errors.Join(err, within(t, limit, "close", f.Close))
}

// tarRounds extracts an archive again and again. When tar succeeds, everything is there.
func tarRounds(t *testing.T, m *mounted, rounds func(func(int))) {
	dir := t.TempDir()
	for i := range 60 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), randomData(i*500),
			0o644); err != nil {
			t.Error(err)
		}
	}
	archive := filepath.Join(t.TempDir(), "a.tar")
	if out, err := exec.Command("tar", "cf", archive, "-C", dir, ".").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	whole := 0
	rounds(func(round int) {
		target := m.path(fmt.Sprintf("tar%d", round))
		if os.Mkdir(target, 0o755) != nil {
			return
		}
		if err := exec.Command("tar", "xf", archive, "-C", target).Run(); err != nil {
			return
		}
		whole++
		far := filepath.Join(m.far, filepath.Base(target))
		if out, err := exec.Command("diff", "-r", dir, far).CombinedOutput(); err != nil {
			t.Errorf("tar has succeeded, but: %s", out)
		}
	})
	t.Logf("%d archives extracted", whole)
}

// gitRounds commits again and again. A commit that git has confirmed is complete in the repository.
func gitRounds(t *testing.T, m *mounted, rounds func(func(int))) {
	repo := m.path("repo")
	git := func(args ...string) error {
		cmd := exec.Command("git", args...)
		cmd.Env = append(os.Environ(), "HOME="+m.home, "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b",
			"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b", "GIT_CONFIG_COUNT=1",
			"GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*")
		return cmd.Run()
	}
	for git("init", "-q", repo) != nil {
		os.RemoveAll(repo)
	}
	var commits []string
	rounds(func(round int) {
		os.Remove(filepath.Join(repo, ".git/index.lock")) // left by a git that failed
		os.Remove(filepath.Join(repo, ".git/HEAD.lock"))
		matches, _ := filepath.Glob(filepath.Join(repo, ".git/refs/heads/*.lock"))
		for _, lock := range matches {
			os.Remove(lock)
		}
		text := fmt.Sprintf("commit %d", round)
		if os.WriteFile(filepath.Join(repo, fmt.Sprint(round)), []byte(text), 0o644) != nil ||
			git("-C", repo, "add", ".") != nil || git("-C", repo, "commit", "-qm", text) != nil {
			return
		}
		commits = append(commits, text)
	})
	far := filepath.Join(m.far, "repo")
	if err := git("-C", far, "fsck", "--full"); err != nil {
		t.Errorf("git fsck: %v", err)
	}
	cmd := exec.Command("git", "-C", far, "log", "--format=%s")
	cmd.Env = append(os.Environ(), "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory",
		"GIT_CONFIG_VALUE_0=*")
	log, err := cmd.Output()
	if err != nil && len(commits) > 0 {
		t.Errorf("git log: %v", err)
	}
	for _, text := range commits {
		if !bytes.Contains(append([]byte("\n"), log...), []byte("\n"+text+"\n")) {
			t.Errorf("%q was confirmed and is lost", text)
		}
	}
	t.Logf("%d commits", len(commits))
}
