//go:build unix

package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/checksum"
	"github.com/usftp/usftp/internal/cutproxy"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/sftptest/opensshd"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// outcomes is what a check reported for each name: "hash" or "reading" if it matches the list,
// otherwise what is wrong.
type outcomes map[string]string

// checked runs a check, and makes sure that its events, totals and error agree.
func checked(t *testing.T, c checkJob) (outcomes, transfer.Summary, error) {
	t.Helper()
	said := make(outcomes)
	c.Options.Events = func(e transfer.Event) {
		if e.TargetHost != "" || e.Target != "" || e.SourceHost != c.Host.Name {
			t.Errorf("the event %+v", e)
		}
		if e.Name == "" {
			return
		}
		if before, twice := said[e.Name]; twice {
			t.Errorf("%q is told twice: %s before, and now %s", e.Name, before, e.Kind)
		}
		switch {
		case e.Kind == transfer.Done:
			said[e.Name] = string(e.Verified)
		case e.Kind == transfer.Skipped, errors.Is(e.Err, transfer.ErrUnlisted):
			said[e.Name] = "unlisted, " + string(e.Kind)
		case errors.Is(e.Err, fs.ErrNotExist) && errors.Is(e.Err, checksum.ErrMismatch):
			said[e.Name] = "missing"
		case errors.Is(e.Err, checksum.ErrMismatch):
			said[e.Name] = "differs"
		default:
			said[e.Name] = e.Message
		}
	}
	s, err := c.Run(t.Context())
	count := func(kinds ...string) (n int64) {
		for _, what := range said {
			if slices.Contains(kinds, what) {
				n++
			}
		}
		return n
	}
	if s.Files != count("hash", "reading") || s.Missing != count("missing") ||
		s.Unlisted != count("unlisted, skipped", "unlisted, failed") ||
		s.Failed != int64(len(said))-s.Files-count("unlisted, skipped") {
		t.Errorf("%v are counted as %+v", said, s)
	}
	var tree *transfer.TreeError
	if len(said) > 0 && (s.Failed > 0) != errors.As(err, &tree) {
		t.Errorf("%d have failed, and the error is %v", s.Failed, err)
	}
	return said, s, err
}

// A check against a list that is emptied meanwhile fails: nobody knows what else it listed.
func TestCheckListChanges(t *testing.T) {
	dir, path := t.TempDir(), filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(path, fmt.Appendf(nil, "%x  gone\n", hashOf("sha256", nil).Sum),
		0o644); err != nil {
		t.Fatal(err)
	}
	list := openList(t, path, checksum.SHA256)
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	s, err := transfer.Check(t.Context(), transfer.Local(dir), list, transfer.CheckOptions{})
	if !errors.Is(err, checksum.ErrMismatch) || s.Failed != 1 ||
		!strings.Contains(err.Error(), path+" changed while it was used: ") {
		t.Errorf("%+v, %v", s, err)
	}
}

func openList(t *testing.T, path string, a checksum.Algorithm) *checksum.List {
	t.Helper()
	list, err := checksum.Open(path, a)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { list.Close() })
	return list
}

// checkScene makes a tree with everything a check may meet, and a list of what should be there.
// want has "ok" for what matches.
func checkScene(t *testing.T, dir string,
	a checksum.Algorithm) (list *checksum.List, want outcomes) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "list")
	m, err := checksum.Create(path)
	must(err)
	defer m.Discard()
	want = outcomes{"extra": "unlisted, skipped", "deep/extra": "unlisted, skipped"}
	must(os.MkdirAll(filepath.Join(dir, "deep", "empty"), 0o755))
	put := func(name string, size int, outcome string) {
		data := random(size)
		must(os.WriteFile(filepath.Join(dir, name), data, 0o644))
		if outcome == "differs" {
			data = append(bytes.Clone(data[:size-1]), data[size-1]+1)
		}
		must(m.Add(name, hashOf(a, data)))
		want[name] = outcome
	}
	put("none", 0, "ok")
	put("small", 100, "ok")
	put("deep/small", 3000, "ok")
	put("deep/large", 1<<20, "ok")
	put("odd\n\x1b[2J\xff", 10, "ok")
	put("differs", 100, "differs")
	put("deep/differs", 1<<20, "differs")
	for _, name := range []string{"extra", "deep/extra"} {
		must(os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	must(os.Symlink("small", filepath.Join(dir, "link")))
	must(os.Symlink("deep", filepath.Join(dir, "linked")))
	must(os.Symlink("nowhere", filepath.Join(dir, "broken")))
	must(os.Symlink(".", filepath.Join(dir, "loop")))
	must(syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	for name, size := range map[string]int{"link": 100, "linked/small": 3000} {
		must(m.Add(name, hashOf(a, random(size))))
		want[name] = "ok"
	}
	for name, outcome := range map[string]string{"gone": "missing", "deep/gone": "missing",
		"small/below": "missing", "broken": "missing", "pipe": "differs", "deep": "differs"} {
		must(m.Add(name, hashOf(a, nil)))
		want[name] = outcome
	}
	must(m.Commit())
	return openList(t, path, a), want
}

// with returns the outcomes wanted if files are verified this way.
func (o outcomes) with(how transfer.Verification) outcomes {
	o = maps.Clone(o)
	for name, outcome := range o {
		if outcome == "ok" {
			o[name] = string(how)
		}
	}
	return o
}

func (o outcomes) compare(t *testing.T, want outcomes) {
	t.Helper()
	for name := range want {
		if o[name] != want[name] {
			t.Errorf("%q: %q, want %q", name, o[name], want[name])
		}
	}
	for name := range o {
		if want[name] == "" {
			t.Errorf("%q: %q, and it should not be told at all", name, o[name])
		}
	}
}

// TestCheck: files that match, differ, are missing or are unlisted are reported as such, on this
// machine, on OpenSSH's server by reading, and on ours by its hashes. Links and pipes are covered,
// too, and the order of the list does not matter.
func TestCheck(t *testing.T) {
	t.Parallel()
	ours, oursDir := ourHost(t)
	sshd := opensshd.Start(t, opensshd.Options{})
	real := throughProxy(t, sshd, cutproxy.Start(t, sshd.Addr()))
	here := t.TempDir()
	for name, test := range map[string]struct {
		host      pool.Host
		dir, path string
		how       transfer.Verification
	}{
		"here":    {pool.Host{}, here, here, transfer.VerifiedByReading},
		"openssh": {real, here, here, transfer.VerifiedByReading},
		"ours":    {ours, oursDir, "/", transfer.VerifiedByHash},
	} {
		for _, a := range []checksum.Algorithm{checksum.SHA256, checksum.BLAKE3} {
			t.Run(name+" "+string(a), func(t *testing.T) {
				if err := emptyDir(test.dir); err != nil {
					t.Fatal(err)
				}
				list, want := checkScene(t, test.dir, a)
				c := checkJob{Host: test.host, Dir: test.path, List: list}
				for range 2 { // a list can be used again
					said, s, err := checked(t, c)
					said.compare(t, want.with(test.how))
					if !errors.Is(err, checksum.ErrMismatch) || !s.Complete {
						t.Errorf("%+v, %v", s, err)
					}
				}

				c.Strict = true
				want["extra"], want["deep/extra"] = "unlisted, failed", "unlisted, failed"
				said, _, _ := checked(t, c)
				said.compare(t, want.with(test.how))

				// Only what is selected is compared, and looked up from the list.
				c.TreeOptions.Filter = rules("linked/", "+ *small", "+ */", "*")
				said, _, err := checked(t, c)
				said.compare(t, outcomes{"small": string(test.how), "deep/small": string(test.how)})
				if err != nil {
					t.Error(err)
				}

				// Linked directories are searched for unlisted files, except those that lead back
				// up.
				c.TreeOptions = transfer.TreeOptions{Links: transfer.LinksFollow,
					Filter: rules("broken")}
				said, _, _ = checked(t, c)
				delete(want, "broken")
				want["linked/extra"], want["linked/large"],
					want["linked/differs"] = "unlisted, failed", "unlisted, failed",
					"unlisted, failed"
				said.compare(t, want.with(test.how))
			})
		}
	}
}

func emptyDir(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return err
}

// TestCheckAsksForHashes: if the host hashes, nothing is read; if it lacks the list's algorithm, or
// announces hashing and refuses, everything is read; a host that counts reads is left alone.
func TestCheckAsksForHashes(t *testing.T) {
	name := wire.ExtensionPair{Name: wire.ExtCheckFileName, Data: "1"}
	for what, test := range map[string]struct {
		offer   []wire.ExtensionPair
		a       checksum.Algorithm
		version string
		reads   bool
		refused bool
	}{
		"by name": {offer: []wire.ExtensionPair{name}, a: checksum.SHA256},
		"by handle": {offer: []wire.ExtensionPair{{Name: wire.ExtCheckFileHandle,
			Data: "1"}}, a: checksum.SHA256},
		"not this algorithm": {offer: []wire.ExtensionPair{name,
			{Name: wire.ExtCheckFileAlgorithms, Data: "sha256"}}, a: checksum.BLAKE3, reads: true},
		"another than it says": {offer: []wire.ExtensionPair{name}, a: checksum.BLAKE3,
			reads: true},
		"no hashes": {a: checksum.SHA256, reads: true},
		"read once, and hashes": {offer: []wire.ExtensionPair{name}, a: checksum.SHA256,
			version: "SSH-2.0-SterlingCommerce"},
		"read once, and no hashes": {a: checksum.SHA256, version: "SSH-2.0-SterlingCommerce",
			refused: true},
	} {
		t.Run(what, func(t *testing.T) {
			server := sftptest.NewServer(t,
				sftptest.Script{Extensions: append(sftptest.OpenSSHExtensions(), test.offer...)})
			host := connect(t, server.Dial(sftptest.LinkConfig{}),
				usftp.WithServerVersion(test.version))
			path := filepath.Join(t.TempDir(), "list")
			names := []string{"a", "b", strings.Repeat("long", 50)}
			writeList(t, path, test.a, names...)
			server.Files.Mkdir("/dir")
			for _, name := range names {
				server.Files.WriteFile("/dir/"+name, []byte(name))
			}
			how := transfer.VerifiedByHash
			if test.reads {
				how = transfer.VerifiedByReading
			}
			c := checkJob{Host: host, Dir: "/dir", List: openList(t, path, test.a)}
			said, _, err := checked(t, c)
			if test.refused {
				if !errors.Is(err, errors.ErrUnsupported) || len(said) > 0 {
					t.Errorf("%v, %v", said, err)
				}
				return
			}
			want := make(outcomes)
			for _, name := range names {
				want[name] = string(how)
			}
			said.compare(t, want)
			if reads := server.Requests(wire.TypeRead); err != nil ||
				(len(reads) > 0) != test.reads {
				t.Errorf("%d reads, %v", len(reads), err)
			}
		})
	}
}

// TestCheckRoundTrips: a thousand files are checked in the round trips of a few, by hashes, by
// reading, and if none of them exist.
func TestCheckRoundTrips(t *testing.T) {
	for what, most := range map[string]int{"hash": 14, "reading": 16, "missing": 12} {
		synctest.Test(t, func(t *testing.T) {
			const trip = time.Second
			script := sftptest.Script{Extensions: sftptest.OpenSSHExtensions()}
			if what == "hash" {
				script.Extensions = append(script.Extensions,
					wire.ExtensionPair{Name: wire.ExtCheckFileName, Data: "1"})
			}
			b := newTreeBench(t, script, sftptest.LinkConfig{ToServer: trip / 2,
				ToClient: trip / 2})
			b.server.Files.Mkdir("/dir")
			var names []string
			for i := range 1000 {
				name := fmt.Sprintf("file%d", i)
				names = append(names, name)
				if what != "missing" {
					b.server.Files.WriteFile("/dir/"+name, []byte(name))
				}
			}
			path := filepath.Join(b.dir, "list")
			writeList(t, path, checksum.SHA256, names...)
			began := time.Now()
			said, s, _ := checked(t, checkJob{Host: b.host, Dir: "/dir",
				List: openList(t, path, checksum.SHA256)})
			if trips := int(time.Since(began) / trip); trips > most || said["file7"] != what ||
				len(said) != 1000 {
				t.Errorf("%s: %d round trips; %+v", what, trips, s)
			}
		})
	}
}

// TestCheckLosesConnection: a check completes over connections that keep breaking, and reports each
// file once.
func TestCheckLosesConnection(t *testing.T) {
	t.Parallel()
	sshd := opensshd.Start(t, opensshd.Options{})
	dir := t.TempDir()
	var names []string
	for i := range 200 {
		name := fmt.Sprintf("%d-%s", i, strings.Repeat("x", i))
		names = append(names, name)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "list")
	writeList(t, path, checksum.SHA256, names...)
	host := throughProxy(t, sshd, cutproxy.Start(t, sshd.Addr(), 20_000, 25_000, 30_000))
	c := checkJob{Host: host, Dir: dir, List: openList(t, path, checksum.SHA256)}
	c.Options.Retries = 5
	c.Options.Backoff = func(int) time.Duration { return 0 }
	said, s, err := checked(t, c)
	if err != nil || len(said) != len(names) || s.Files != int64(len(names)) {
		t.Errorf("%d are told; %+v, %v", len(said), s, err)
	}
}

// TestCheckRefuses: nothing is checked without a list, with an empty one, or if the directory is a
// file.
func TestCheckRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	os.WriteFile(file, []byte("# nothing\n\n"), 0o644)
	full := filepath.Join(dir, "list")
	writeList(t, full, checksum.SHA256, "a")
	for what, c := range map[string]checkJob{
		"no list":       {Dir: dir},
		"an empty list": {Dir: dir, List: openList(t, file, checksum.SHA256)},
		"no directory":  {Dir: file, List: openList(t, full, checksum.SHA256)},
		"nothing": {Dir: filepath.Join(dir, "nothing"),
			List: openList(t, full, checksum.SHA256)},
		"a bad pattern": {Dir: dir, List: openList(t, full, checksum.SHA256),
			TreeOptions: transfer.TreeOptions{Filter: rules("/")}},
	} {
		said, s, err := checked(t, c)
		var ours *transfer.Error
		if !errors.As(err, &ours) || len(said) > 0 || s.Complete {
			t.Errorf("%s: %v, %+v, %v", what, said, s, err)
		}
	}
}

// TestCheckEnds: a check ends with its context, even in the middle of a large file.
func TestCheckEnds(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "large")
	if err := errors.Join(os.WriteFile(large, nil, 0o644), os.Truncate(large, 1<<40)); err != nil {
		testenv.Unavailable(t, err)
	}
	path := filepath.Join(t.TempDir(), "list")
	writeList(t, path, checksum.SHA256, "large")
	ctx, cancel := context.WithCancel(t.Context())
	c := checkJob{Dir: dir, List: openList(t, path, checksum.SHA256)}
	c.Options.SetProgressEvery(time.Millisecond)
	c.Options.Events = func(e transfer.Event) {
		if e.Kind == transfer.Progress && e.Bytes > 0 {
			cancel()
		}
	}
	if s, err := c.Run(ctx); !errors.Is(err, context.Canceled) || s.Missing > 0 {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestCheckWaitsForNoPipe: a file that is found behind a link and becomes a named pipe before it is
// read is not waited for.
func TestCheckWaitsForNoPipe(t *testing.T) {
	dir := t.TempDir()
	err := errors.Join(os.Mkdir(filepath.Join(dir, "real"), 0o755),
		os.Symlink("real", filepath.Join(dir, "link")))
	var names []string
	for i := range 50 {
		name := fmt.Sprint("link/", i)
		names = append(names, name)
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	path := filepath.Join(t.TempDir(), "list")
	writeList(t, path, checksum.SHA256, names...)
	c := checkJob{Dir: dir, List: openList(t, path, checksum.SHA256)}
	c.TreeOptions.MaxFiles = 1
	var once sync.Once
	c.Options.Events = func(e transfer.Event) {
		if !strings.HasPrefix(e.Name, "link/") {
			return
		}
		once.Do(func() { // others have been found by now
			for _, name := range names {
				name = filepath.Join(dir, name)
				err = errors.Join(err, os.Remove(name), syscall.Mkfifo(name, 0o600))
			}
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if s, ended := c.Run(ctx); err != nil || ctx.Err() != nil || ended == nil {
		t.Errorf("%+v, %v, %v", s.Totals, ended, err)
	}
}

// TestCheckListThatContradictsItself: a file listed twice with different hashes cannot match both.
func TestCheckListThatContradictsItself(t *testing.T) {
	dir := t.TempDir()
	os.WriteFile(filepath.Join(dir, "a"), []byte("a"), 0o644)
	os.WriteFile(filepath.Join(dir, "b"), []byte("b"), 0o644)
	line := func(name, data string) string {
		return strings.TrimPrefix(hashOf(checksum.SHA256, []byte(data)).String(), "sha256:") +
			"  " + name + "\n"
	}
	path := filepath.Join(t.TempDir(), "list")
	text := line("a", "a") + line("a", "other") + line("b", "b") + line("./b", "b") +
		line("gone", "1") + line("gone", "2")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	said, _, _ := checked(t, checkJob{Dir: dir, List: openList(t, path, checksum.SHA256)})
	said.compare(t, outcomes{"a": "differs", "b": "reading", "gone": "missing"})
}
