package transfer_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/sftptest/opensshd"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// sftpServer starts OpenSSH's sftp-server, and returns a client of it.
func sftpServer(t *testing.T) pool.Host {
	t.Helper()
	return started(t, exec.Command(opensshd.Find(t, "sftp-server")))
}

// started starts a server, and returns a client of it.
func started(t *testing.T, cmd *exec.Cmd) pool.Host {
	t.Helper()
	in, out := testenv.Pipes(t, cmd)
	client, err := usftp.NewClientPipe(out, in, usftp.WithServerVersion("SSH-2.0-OpenSSH_9.6"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		cmd.Wait()
	})
	return pool.Host{Client: client, Name: "far"}
}

// A doing is what one event reports: a path below the target, and the reason. A path that is
// deleted and made again has two.
type doing struct {
	name   string
	reason transfer.Reason
}

// doings returns what the events of these kinds report, sorted.
func (j *syncJob) doings(kinds ...transfer.Kind) (all []doing) {
	for _, e := range j.events {
		if slices.Contains(kinds, e.Kind) && e.Totals == nil {
			all = append(all, doing{strings.TrimPrefix(e.Target, j.dst+"/"), e.Reason})
		}
	}
	slices.SortFunc(all, func(a, b doing) int {
		return cmp.Or(strings.Compare(a.name, b.name), strings.Compare(string(a.reason),
			string(b.reason)))
	})
	return all
}

// A grove is a directory of random files, directories and links, and changes to it.
type grove struct {
	t    *testing.T
	rng  *rand.Rand
	root string
	n    int
}

func newGrove(t *testing.T, seed uint64, root string) *grove {
	g := &grove{t: t, rng: rand.New(rand.NewPCG(seed, 13)), root: root}
	g.must(os.MkdirAll(root, 0o755))
	for range 30 {
		g.add(g.directory())
	}
	return g
}

func (g *grove) must(err error) {
	if err != nil {
		g.t.Helper()
		g.t.Fatal(err)
	}
}

// all returns the paths of everything of a kind.
func (g *grove) all(kind fs.FileMode) (names []string) {
	filepath.WalkDir(g.root, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type() == kind {
			names = append(names, name)
		}
		return nil
	})
	slices.Sort(names)
	return names
}

func (g *grove) pick(names []string) string { return names[g.rng.IntN(len(names))] }

func (g *grove) directory() string { return g.pick(g.all(fs.ModeDir)) }

func (g *grove) add(dir string) {
	g.n++
	name := filepath.Join(dir, fmt.Sprintf("n%d", g.n))
	if g.rng.IntN(5) == 0 {
		name += " \xff\n"
	}
	g.make(name)
}

func (g *grove) make(name string) {
	switch g.rng.IntN(6) {
	case 0:
		g.must(os.Mkdir(name, 0o700+fs.FileMode(g.rng.IntN(0o100))))
	case 1:
		g.must(os.Symlink(fmt.Sprintf("to%d", g.rng.IntN(100)), name))
	default:
		size := g.rng.IntN(3000)
		if g.rng.IntN(10) == 0 {
			size = 300_000 + g.rng.IntN(300_000)
		}
		g.write(name, size)
		g.must(os.Chmod(name, 0o600+fs.FileMode(g.rng.IntN(0o200))))
	}
}

func (g *grove) write(name string, size int) {
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(g.rng.Uint32())
	}
	g.must(os.WriteFile(name, data, 0o644))
	when := time.Unix(1_000_000_000+g.rng.Int64N(100_000_000), 0)
	g.must(os.Chtimes(name, when, when))
}

// change makes a random change; only changes that need no deleting, unless deleting is set.
func (g *grove) change(deleting bool) {
	kinds := 6
	if deleting {
		kinds = 9
	}
	files, links := g.all(0), g.all(fs.ModeSymlink)
	switch k := g.rng.IntN(kinds); {
	case k == 0:
		g.add(g.directory())
	case k == 1 && len(files) > 0:
		g.write(g.pick(files), g.rng.IntN(3000))
	case k == 2 && len(files) > 0: // only the time
		when := time.Unix(1_200_000_000+g.rng.Int64N(100_000_000), 0)
		g.must(os.Chtimes(g.pick(files), when, when))
	case k == 3 && len(files) > 0: // only the mode
		g.must(os.Chmod(g.pick(files), 0o600+fs.FileMode(g.rng.IntN(0o200))))
	case k == 4 && len(files)+len(links) > 0: // another type
		name := g.pick(append(files, links...))
		g.must(os.Remove(name))
		g.make(name)
	case k == 5:
		g.must(os.Chmod(g.directory(), 0o700+fs.FileMode(g.rng.IntN(0o100))))
	case k == 6 && len(files)+len(links) > 0:
		g.must(os.Remove(g.pick(append(files, links...))))
	case k >= 7:
		if dir := g.directory(); dir != g.root {
			g.must(os.RemoveAll(dir))
			if k == 8 {
				g.make(dir)
			}
		}
	}
}

func everyWay(t *testing.T, test func(t *testing.T, direction way, far pool.Host)) {
	for _, direction := range []way{upload, download, relay, local} {
		t.Run(direction.String(), func(t *testing.T) { test(t, direction, sftpServer(t)) })
	}
}

// Whatever changes in the source, the next sync makes the target equal, and the one after that does
// nothing.
func TestSyncMakesEqual(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, direction way, far pool.Host) {
		for seed := range uint64(4) {
			dir := t.TempDir()
			g := newGrove(t, seed, filepath.Join(dir, "src"))
			j := &syncJob{direction: direction, far: far, src: g.root,
				dst: filepath.Join(dir, "dst")}
			for round := range 6 {
				s := j.must(t)
				sameTrees(t, j.src, j.dst)
				again := j.must(t)
				sameTrees(t, j.src, j.dst)
				if again.Files > 0 || again.Attrs > 0 || again.Links > 0 || again.Kept != s.Files+
					s.Kept {
					t.Errorf("seed %d, round %d: first %+v, again %+v", seed, round, s.Totals,
						again.Totals)
				}
				for range 10 {
					g.change(false)
				}
			}
		}
	})
}

// A dry run of what replaces a link by a directory does not look for case in that link, which is
// still there.
func TestSyncDryRunOfTwoNamesWhereALinkIs(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, direction way, far pool.Host) {
		dir := t.TempDir()
		src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
		fill(t, src, "a/photo", "a/Photo")
		fill(t, dst, "other")
		testenv.Symlink(t, "nowhere", filepath.Join(dst, "a"))
		if len(filesIn(src)) < 3 {
			testenv.Unavailable(t, "a disk on which the names are two files")
		}
		j := &syncJob{direction: direction, far: far, src: src, dst: dst,
			options: transfer.SyncOptions{TreeOptions: transfer.TreeOptions{DryRun: true}}}
		if s := j.must(t); s.PlannedFiles != 2 {
			t.Errorf("%+v", s.Totals)
		}
		j.options.DryRun = false
		if s := j.must(t); s.Files != 2 {
			t.Errorf("%+v", s.Totals)
		}
	})
}

// A dry run announces exactly what is then done, and does nothing itself.
func TestSyncDryRun(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, direction way, far pool.Host) {
		for seed := range uint64(3) {
			dir := t.TempDir()
			g := newGrove(t, seed, filepath.Join(dir, "src"))
			j := &syncJob{direction: direction, far: far, src: g.root,
				dst: filepath.Join(dir, "dst")}
			for range 4 {
				before := fmt.Sprint(sftptestTree(t, dir))
				j.options.DryRun = true
				planned := j.must(t)
				plan := j.told(transfer.Planned)
				if after := fmt.Sprint(sftptestTree(t, dir)); after != before {
					t.Fatalf("a dry run changed\n%s\nto\n%s", before, after)
				}
				j.options.DryRun = false
				done := j.must(t)
				for name, reason := range j.told(transfer.Done) {
					if plan[name] != reason {
						t.Errorf("%q was done because of %q and planned because of %q", name,
							reason,
							plan[name])
					}
				}
				if done.Files != planned.PlannedFiles-planned.Kept || done.Attrs != planned.Attrs {
					t.Errorf("planned %+v, done %+v", planned.Totals, done.Totals)
				}
				for range 10 {
					g.change(false)
				}
			}
		}
	})
}

// sftptestTree lists everything, with times.
func sftptestTree(t *testing.T, root string) (all []string) {
	t.Helper()
	filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			t.Fatal(err)
		}
		info, _ := d.Info()
		all = append(all, fmt.Sprintf("%q %v %v", name, info.Mode(), info.ModTime()))
		return nil
	})
	return all
}

// Each option leaves alone what it should.
func TestSyncOptions(t *testing.T) {
	t.Parallel()
	t0 := time.Unix(1_500_000_000, 0)
	put := func(t *testing.T, root, name, data string, when time.Time) {
		t.Helper()
		name = filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755),
			os.WriteFile(name, []byte(data), 0o644), os.Chtimes(name, when, when)); err != nil {
			t.Fatal(err)
		}
	}
	var updating transfer.SyncOptions
	updating.Update = true
	for name, test := range map[string]struct {
		options transfer.SyncOptions
		want    map[string]transfer.Reason
	}{
		"none": {want: map[string]transfer.Reason{"new": "new", "newer": "time", "older": "time",
			"second": "time", "large": "size"}},
		"window": {options: transfer.SyncOptions{ModifyWindow: time.Second},
			want: map[string]transfer.Reason{"new": "new", "newer": "time", "older": "time",
				"large": "size"}},
		"checksum": {options: transfer.SyncOptions{Checksum: true},
			want: map[string]transfer.Reason{
				"new": "new", "newer": "touch", "older": "touch", "second": "touch",
				"large":  "size",
				"secret": "hash"}},
		"update": {options: updating,
			want: map[string]transfer.Reason{
				"new": "new", "newer": "time", "second": "time", "large": "size"}},
		"existing": {options: transfer.SyncOptions{Only: transfer.SyncOnly{Existing: true}},
			want: map[string]transfer.Reason{
				"newer": "time", "older": "time", "second": "time", "large": "size"}},
		"ignore existing": {options: transfer.SyncOptions{
			Only: transfer.SyncOnly{IgnoreExisting: true}},
			want: map[string]transfer.Reason{"new": "new"}},
		"small": {options: transfer.SyncOptions{Only: transfer.SyncOnly{MaxSize: 4}},
			want: map[string]transfer.Reason{
				"new": "new", "newer": "time", "older": "time", "second": "time"}},
		"large": {options: transfer.SyncOptions{Only: transfer.SyncOnly{MinSize: 5}},
			want: map[string]transfer.Reason{
				"large": "size"}},
		"recent": {options: transfer.SyncOptions{
			Only: transfer.SyncOnly{Newer: t0.Add(time.Minute)}},
			want: map[string]transfer.Reason{"newer": "time"}},
	} {
		t.Run(name, func(t *testing.T) {
			everyWay(t, func(t *testing.T, direction way, far pool.Host) {
				dir := t.TempDir()
				src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
				for _, root := range []string{src, dst} {
					put(t, root, "equal", "same", t0)
				}
				put(t, src, "new", "data", t0)
				put(t, src, "newer", "data", t0.Add(time.Hour))
				put(t, dst, "newer", "data", t0)
				put(t, src, "older", "data", t0)
				put(t, dst, "older", "data", t0.Add(time.Hour))
				put(t, src, "second", "data", t0.Add(time.Second))
				put(t, dst, "second", "data", t0)
				put(t, src, "secret", "abcd", t0)
				put(t, dst, "secret", "efgh", t0)
				put(t, src, "large", "larger", t0)
				put(t, dst, "large", "large", t0)
				j := &syncJob{direction: direction, far: far, src: src, dst: dst,
					options: test.options}
				j.must(t)
				if got := j.told(transfer.Done); fmt.Sprint(got) != fmt.Sprint(test.want) {
					t.Errorf("done is %v, want %v", got, test.want)
				}
				for name, reason := range test.want {
					want, _ := os.ReadFile(filepath.Join(src, name))
					got, err := os.ReadFile(filepath.Join(dst, name))
					if err != nil || !bytes.Equal(got, want) {
						t.Errorf("%s (%s) holds %q, want %q, %v", name, reason, got, want, err)
					}
				}
			})
		})
	}
}

// A directory with contents does not give way to a file, and nested directories are refused.
func TestSyncRefuses(t *testing.T) {
	everyWay(t, func(t *testing.T, direction way, far pool.Host) {
		dir := t.TempDir()
		src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
		os.MkdirAll(filepath.Join(src, "below"), 0o755)
		os.MkdirAll(filepath.Join(dst, "name", "full"), 0o755)
		os.WriteFile(filepath.Join(src, "name"), []byte("file"), 0o644)
		run := func(from, to string) error {
			_, err := (&syncJob{direction: direction, far: far, src: from, dst: to}).run(t)
			return err
		}
		if err := run(src, dst); err == nil || !strings.Contains(err.Error(), "not empty") {
			t.Errorf("over a directory with contents: %v", err)
		}
		if _, err := os.Stat(filepath.Join(dst, "name", "full")); err != nil {
			t.Error(err)
		}
		for _, pair := range [][2]string{{src, src}, {src, filepath.Join(src, "below")},
			{src, filepath.Join(src, "fresh")}, {filepath.Join(src, "below"), src}} {
			if err := run(pair[0], pair[1]); err == nil ||
				!strings.Contains(err.Error(), "is inside the other") {
				t.Errorf("%s to %s: %v", pair[0], pair[1], err)
			}
		}
		if err := run(filepath.Join(src, "name"), dst); err == nil ||
			!strings.Contains(err.Error(), "not a directory") {
			t.Errorf("a file: %v", err)
		}
		if left := fmt.Sprint(sftptestTree(t, src)); strings.Contains(left, "probe") ||
			strings.Contains(left, "fresh") {
			t.Errorf("left behind: %s", left)
		}
	})
}

// A file that vanishes between listing and copying is counted separately.
func TestSyncVanished(t *testing.T) {
	var b *bench
	b = newTreeBench(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
		if r.Type == wire.TypeOpen && r.Path == "/src/gone" {
			return []sftptest.Action{sftptest.Call("vanish", func(sftptest.Request) {
				b.server.Files.Remove("/src/gone")
			})}
		}
		return nil
	}}, sftptest.LinkConfig{})
	b.server.Files.WriteFile("/src/gone", []byte("data"))
	b.server.Files.WriteFile("/src/there", []byte("data"))
	j := &syncJob{direction: download, far: b.host, src: "/src", dst: filepath.Join(b.dir, "dst")}
	s, err := j.run(t)
	if !errors.Is(err, transfer.ErrVanished) || s.Vanished != 1 || s.Files != 1 || s.Failed != 0 {
		t.Errorf("%+v, %v", s.Totals, err)
	}
}

// A link that leads nowhere and is followed is a failure at every run, and has not vanished.
func TestSyncFollowsALinkThatLeadsNowhere(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, direction way, far pool.Host) {
		dir := t.TempDir()
		src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
		fill(t, src, "there")
		fill(t, dst, "extra")
		testenv.Symlink(t, "nowhere", filepath.Join(src, "link"))
		j := &syncJob{direction: direction, far: far, src: src, dst: dst,
			options: transfer.SyncOptions{Delete: true,
				TreeOptions: transfer.TreeOptions{Links: transfer.LinksFollow}}}
		s, err := j.run(t)
		if err == nil || errors.Is(err, transfer.ErrVanished) || s.Vanished != 0 || s.Failed != 1 ||
			s.Files != 1 || s.Deleted != 0 {
			t.Errorf("%+v, %v", s.Totals, err)
		}
	})
}

// Files whose sizes a host does not tell are copied.
func TestSyncOfUnknownSizes(t *testing.T) {
	b := newTreeBench(t, sftptest.Script{HideAttrs: wire.AttrSize}, sftptest.LinkConfig{})
	b.server.Files.WriteFile("/src/file", []byte("data"))
	j := &syncJob{direction: download, far: b.host, src: "/src", dst: filepath.Join(b.dir, "dst")}
	if s := j.must(t); s.Files != 1 || string(b.read("dst/file")) != "data" {
		t.Errorf("%+v", s.Totals)
	}
}

// Where something vanished, nothing is deleted, however the source is named.
func TestSyncVanishedBesideExtras(t *testing.T) {
	for _, test := range []struct{ src, in string }{{"/src", ""}, {"/src/.", ""}, {"/src/.", "dir/"},
		{".", ""}, {".", ".hidden/"}, {"./", "dir/"}} {
		var b *bench
		b = newTreeBench(t, sftptest.Script{Home: "/src",
			Intercept: func(r sftptest.Request) []sftptest.Action {
				if r.Type == wire.TypeOpen && strings.HasSuffix(r.Path, "gone") {
					return []sftptest.Action{sftptest.Call("vanish", func(sftptest.Request) {
						b.server.Files.Remove("/src/" + test.in + "gone")
					})}
				}
				return nil
			}}, sftptest.LinkConfig{})
		for _, name := range []string{"gone", "there"} {
			b.server.Files.WriteFile("/src/"+test.in+name, []byte("data"))
		}
		dst := filepath.Join(b.dir, "dst")
		extra := filepath.Join(dst, test.in, "extra")
		fill(t, dst, test.in+"extra")
		j := &syncJob{direction: download, far: b.host, src: test.src, dst: dst,
			options: transfer.SyncOptions{Delete: true}}
		if s, err := j.run(t); !errors.Is(err, transfer.ErrVanished) || s.Vanished != 1 {
			t.Errorf("%+v: %+v, %v", test, s.Totals, err)
		}
		if _, err := os.Lstat(extra); err != nil {
			t.Errorf("%+v: %v", test, err)
		}
	}
}

// A second run asks nothing about any file: its requests and round trips grow only with the
// directories and the packets of names. The lock costs two of each run's round trips.
func TestSyncRoundTrips(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		link := sftptest.LinkConfig{ToServer: 25 * time.Millisecond,
			ToClient: 25 * time.Millisecond}
		server := sftptest.NewServer(t, sftptest.Script{})
		counter := sftptest.NewCounter(server.Dial(link))
		far := connect(t, counter, inOrder)
		const dirs, files = 20, 50
		src := t.TempDir()
		for i := range dirs {
			sameFiles(t, fmt.Sprintf("%s/d%d", src, i), files, []byte("data"))
		}
		j := &syncJob{direction: upload, far: far, src: src, dst: "/dst"}
		counter.Reset()
		j.must(t)
		if trips := counter.Counts().RoundTrips; trips > 12 {
			t.Errorf("the first run took %d round trips", trips)
		}
		counter.Reset()
		s := j.must(t)
		counts := counter.Counts()
		if s.Kept != dirs*files || s.Files != 0 {
			t.Fatalf("%+v", s.Totals)
		}
		sent := 0
		for _, n := range counts.PacketsSent {
			sent += n
		}
		if most := 10*dirs + 20; sent > most {
			t.Errorf("%d requests for %d files in %d directories, want at most %d", sent,
				dirs*files,
				dirs, most)
		}
		if counts.RoundTrips > 7 {
			t.Errorf("it took %d round trips", counts.RoundTrips)
		}
		for i := range dirs { // which does not count if times do not
			must(t, os.Chtimes(fmt.Sprintf("%s/d%d", src, i), time.Time{}, time.Unix(1e9, 0)))
		}
		j.options.NoTimes = true
		counter.Reset()
		j.must(t)
		if n := counter.Counts().RoundTrips; n > 7 {
			t.Errorf("without times it took %d round trips", n)
		}
	})
}
