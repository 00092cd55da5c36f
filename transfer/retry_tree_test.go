package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// redials passes the bench's connection, and each that replaces it, to a function that prepares it,
// for example to be cut after some bytes. It counts them.
func (b *bench) redials(link sftptest.LinkConfig,
	prepare func(n int, end *sftptest.End)) (count *int) {
	b.t.Helper()
	count = new(int)
	b.host = redialed(b.t, "far", func() (*usftp.Client, error) {
		end := b.server.Dial(link)
		if prepare != nil {
			prepare(*count, end)
		}
		*count++
		return usftp.NewClientPipe(end, end, inOrder,
			usftp.WithKeepalive(func(context.Context) error {
				return errors.New("nobody is there")
			}))
	})
	return count
}

func retries(n int) func(*treeJob) {
	return func(tree *treeJob) { tree.Options.Retries = n }
}

// onceMore allows one attempt to reconnect, at once.
var onceMore = pool.Retry{Retries: 1, Backoff: func(int) time.Duration { return 0 }}

// mixed makes a tree of many files, a few of them large, with deep directories and links.
func (b *bench) mixed(name string, files, largest int, rng *rand.Rand) string {
	b.t.Helper()
	root := filepath.Join(b.dir, name)
	dirs := []string{"."}
	for i := range max(3, files/20) {
		dirs = append(dirs, filepath.Join(dirs[rng.IntN(len(dirs))], fmt.Sprintf("dir%d", i)))
	}
	for _, dir := range dirs {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			b.t.Fatal(err)
		}
	}
	for i := range files {
		size := rng.IntN(20_000)
		switch {
		case i%50 == 7:
			size = 300_000 + rng.IntN(largest-300_000)
		case i%10 == 3:
			size = rng.IntN(250_000)
		case i%25 == 4:
			size = 0
		}
		file := filepath.Join(root, dirs[rng.IntN(len(dirs))], fmt.Sprintf("file%d", i))
		data := make([]byte, size)
		for at := range len(data) / 64 { // cheaper than all random
			data[at*64] = byte(rng.Uint32())
		}
		if err := os.WriteFile(file, data, 0o640); err != nil {
			b.t.Fatal(err)
		}
		os.Chtimes(file, oldTime, oldTime.Add(time.Duration(i)*time.Second))
	}
	if sampleLinks > 0 {
		os.Symlink("dir0/none", filepath.Join(root, "link"))
	}
	slices.Reverse(dirs)
	for _, dir := range dirs {
		os.Chtimes(filepath.Join(root, dir), oldTime, oldTime)
	}
	return root
}

// TestTreeCutAgainAndAgain: over connections that are each cut after a random number of bytes in a
// random direction, a tree arrives complete: contents, times and modes, those of directories too.
// Nothing finished is sent again, and nothing is left behind.
func TestTreeCutAgainAndAgain(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		for _, direction := range []way{upload, download} {
			t.Run(fmt.Sprintf("seed %d %v", seed, direction), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { treeCut(t, seed, direction) })
			})
		}
	}
}

func treeCut(t *testing.T, seed uint64, direction way) {
	rng := rand.New(rand.NewPCG(seed, 41))
	script := sftptest.Script{ReaddirNames: 7}
	if rng.IntN(3) == 0 {
		script.Extensions = []wire.ExtensionPair{} // no posix-rename
	}
	link := sftptest.LinkConfig{ToServer: 5 * time.Millisecond, ToClient: 5 * time.Millisecond,
		RateBytesPerSec: 4 << 20}
	b := newBench(t, script, link)
	var lost []string
	cut := func(n int, end *sftptest.End) {
		if n > 9 {
			return
		}
		// Cut after bytes that the client sent, possibly in the middle of a request, or after a
		// time, so that replies are lost.
		if direction == upload && rng.IntN(2) == 0 {
			end.CutAfter(int64(200+rng.IntN(1_500_000)), nil)
		} else {
			time.AfterFunc(time.Duration(10+rng.IntN(350))*time.Millisecond,
				func() { end.Cut(nil) })
		}
	}
	local := b.mixed("source", 120, 3_300_000, rng)
	source, target := local, "/target"
	if direction == download {
		if _, err := b.tree(upload, local, "/target"); err != nil {
			t.Fatal(err)
		}
		source, target = "/target", filepath.Join(b.dir, "target")
	}
	b.server.ForgetRequests()
	count := b.redials(link, cut)
	done := make(map[string]int)
	s, err := b.tree(direction, source, target, retries(8), func(tree *treeJob) {
		tree.Options.Events = func(e transfer.Event) {
			switch {
			case e.Kind == transfer.Done:
				done[e.Source]++
			case e.Kind == transfer.Retried:
				lost = append(lost, e.Message)
				if e.Source == "" || e.SourceHost+e.TargetHost != "far" || e.Err == nil ||
					e.Wait <= 0 || !e.Tree {
					t.Errorf("the event is %+v", e)
				}
			}
		}
	})
	if err != nil {
		t.Fatalf("%+v, %v; it was lost:\n%s", s, err, strings.Join(lost, "\n"))
	}
	if *count < 5 || len(lost) < *count-1 {
		t.Errorf("%d connections and %d events: too few to prove anything", *count, len(lost))
	}
	links := min(sampleLinks, 1) // see mixed
	if s.Files != 120 || len(done) != 120 || s.Failed != 0 || s.Links != links || !s.Complete ||
		s.PlannedFiles != 120 {
		t.Errorf("%d files are said to be done; %+v", len(done), s)
	}
	for name, times := range done {
		if times != 1 {
			t.Errorf("%s was done %d times", name, times)
		}
	}
	b.notSentTwice(direction)
	b.reconnect(sftptest.LinkConfig{})
	out := filepath.Join(b.dir, "out")
	if direction == download {
		out = target
	} else if _, err := b.tree(download, "/target", out); err != nil {
		t.Fatal(err)
	}
	sameTrees(t, local, out)
	sameContents(t, local, out)
	if left := b.temporaries(); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	if t.Failed() {
		t.Logf("seed %d; it was lost:\n%s", seed, strings.Join(lost, "\n"))
	}
}

// TestFewFilesAtOnceFromSourceThatBreaks: files come one at a time from a host whose connections
// break before the requests for all of them are sent, here and on another host.
func TestFewFilesAtOnceFromSourceThatBreaks(t *testing.T) {
	for _, direction := range []way{download, relay} {
		t.Run(direction.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				link := sftptest.LinkConfig{ToServer: 5 * time.Millisecond}
				b, to := newBench(t, sftptest.Script{}, link), newBench(t, sftptest.Script{}, link)
				const files = 60
				for i := range files {
					b.server.Files.WriteFile(fmt.Sprint("/source/a long name for a file, ", i), random(2000))
				}
				b.redials(link, func(_ int, end *sftptest.End) { end.CutAfter(3000, nil) })
				target := filepath.Join(b.dir, "copy")
				if direction == relay {
					target = "/copy"
				}
				s, err := b.tree(direction, "/source", target, retries(8), func(j *treeJob) {
					if direction == relay {
						j.Host, j.From = to.host, b.host
					}
				})
				if err != nil || s.Files != files {
					t.Errorf("%+v, %v", s.Totals, err)
				}
			})
		})
	}
}

// notSentTwice examines the requests: once a file was renamed, nothing is opened for it again, and
// a file read to its end is not read again.
func (b *bench) notSentTwice(direction way) {
	b.t.Helper()
	placed := make(map[string]bool)
	for _, r := range b.server.Requests() {
		switch {
		case direction == upload &&
			(r.Type == wire.TypeRename || r.Extension == wire.ExtPosixRename):
			placed[r.Path] = true // by the temporary name
		case direction == upload && r.Type == wire.TypeWrite && placed[r.Path]:
			b.t.Errorf("%s is written to after it was renamed", r.Path)
		}
	}
}

// sameContents compares the bytes of two local trees.
func sameContents(t *testing.T, a, b string) {
	t.Helper()
	files := 0
	filepath.WalkDir(a, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			t.Error(err)
		} else if d.Type().IsRegular() {
			rel, _ := filepath.Rel(a, name)
			want, _ := os.ReadFile(name)
			got, err := os.ReadFile(filepath.Join(b, rel))
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s differs: %d bytes, want %d, %v", rel, len(got), len(want), err)
			}
			files++
		}
		return nil
	})
	if files == 0 {
		t.Error("there is nothing to compare")
	}
}

// TestReplyLost: the connection ends after a request was executed, but before its reply. The client
// checks what happened before it repeats the request.
func TestReplyLost(t *testing.T) {
	t.Parallel()
	posix := sftptest.OpenSSHExtensions()
	source := filepath.Join(t.TempDir(), "source")
	makeSample(t, source)
	for name, test := range map[string]struct {
		on         wire.Type
		extension  string
		from       uint64 // from this WRITE on
		skip       int
		plain      bool // no posix-rename
		there      bool // the target tree exists already
		notCarried bool // the connection ends instead
	}{
		"mkdir":                 {on: wire.TypeMkdir, skip: 2},
		"mkdir of the top":      {on: wire.TypeMkdir},
		"mkdir not carried out": {on: wire.TypeMkdir, skip: 2, notCarried: true},
		"mkdir where it is":     {on: wire.TypeMkdir, skip: 2, there: true},
		"open":                  {on: wire.TypeOpen, skip: 3},
		"write":                 {on: wire.TypeWrite, skip: 3},
		"write of the large":    {on: wire.TypeWrite, from: 300_000},
		"fsetstat":              {on: wire.TypeFsetstat, skip: 3},
		"close":                 {on: wire.TypeClose, skip: 3},
		"rename": {on: wire.TypeExtended, extension: wire.ExtPosixRename,
			skip: 2},
		"rename where it is": {on: wire.TypeExtended, extension: wire.ExtPosixRename,
			skip: 2, there: true},
		"rename not carried out": {on: wire.TypeExtended, extension: wire.ExtPosixRename,
			skip: 2, notCarried: true},
		"plain rename":                {on: wire.TypeRename, skip: 2, plain: true},
		"plain rename where it is, 1": {on: wire.TypeRename, skip: 4, plain: true, there: true},
		"plain rename where it is, 2": {on: wire.TypeRename, skip: 5, plain: true, there: true},
		"plain rename where it is, 3": {on: wire.TypeRename, skip: 6, plain: true, there: true,
			notCarried: true},
		"plain rename where it is, 4": {on: wire.TypeRename, skip: 7, plain: true, there: true,
			notCarried: true},
		"remove": {on: wire.TypeRemove, skip: 2, plain: true, there: true},
		"remove not carried out": {on: wire.TypeRemove, skip: 2, plain: true, there: true,
			notCarried: true},
		"symlink":                  {on: wire.TypeSymlink, skip: 1},
		"symlink not carried out":  {on: wire.TypeSymlink, skip: 1, notCarried: true},
		"symlink where another is": {on: wire.TypeSymlink, skip: 1, there: true},
		"symlink where another is, plain": {on: wire.TypeSymlink, skip: 1, there: true,
			plain: true},
		"setstat of a directory": {on: wire.TypeSetstat, skip: 1, plain: true},
		"lsetstat":               {on: wire.TypeExtended, extension: wire.ExtLsetstat, skip: 1},
		"lstat":                  {on: wire.TypeLstat, skip: 1, there: true},
		"stat":                   {on: wire.TypeStat},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				do := sftptest.Truncate(0)
				if test.notCarried {
					do = sftptest.Hangup()
				}
				if sampleLinks == 0 && (test.there || test.on == wire.TypeSymlink) {
					testenv.Unavailable(t, "there are no links")
				}
				b := newTreeBench(t, sftptest.Script{Extensions: posix}, sftptest.LinkConfig{})
				if test.plain {
					b = newTreeBench(t, sftptest.Script{Extensions: []wire.ExtensionPair{
						{Name: wire.ExtLimits, Data: "1"}}}, sftptest.LinkConfig{})
				}
				if test.there {
					if _, err := b.tree(upload, source, "/target"); err != nil {
						t.Fatal(err)
					}
					b.server.Files.Remove("/target/dangling")
					b.server.Files.Remove("/target/deep/link")
					b.server.Files.Symlink("elsewhere", "/target/dangling")
					b.server.Files.Symlink("elsewhere", "/target/deep/link")
				}
				link := sftptest.LinkConfig{ToServer: time.Millisecond, ToClient: time.Millisecond}
				count := b.redials(link, nil)
				fault := sftptest.Fault{On: test.on, Extension: test.extension, Skip: test.skip,
					Times: 1, Do: do}
				if test.from > 0 {
					fault.From, fault.To = test.from, math.MaxUint64
				}
				b.server.AddFaults(fault)
				name := source
				if test.there {
					name += "/."
				}
				s, err := b.tree(upload, name, "/target", retries(2))
				if err != nil || s.Files != 9 || s.Links != sampleLinks {
					t.Fatalf("%+v, %v", s, err)
				}
				if *count != 2 || len(b.kinds(transfer.Retried, "")) != 1 {
					t.Errorf("%d connections, %d tries", *count, len(b.kinds(transfer.Retried, "")))
				}
				b.reconnect(sftptest.LinkConfig{})
				out := filepath.Join(b.dir, "out")
				if _, err := b.tree(download, "/target", out); err != nil {
					t.Fatal(err)
				}
				sameTrees(t, source, out)
				sameContents(t, source, out)
				if left := b.temporaries(); len(left) > 0 {
					t.Errorf("left behind: %q", left)
				}
				synctest.Wait() // nobody waits for the CLOSE of a file that was read
				if n := b.server.OpenHandles(); n != 0 {
					t.Errorf("%d handles are open", n)
				}
			})
		})
	}
}

// TestReplacedBeforeTheReplyWasLost: a file that has replaced an older one when the connection is
// lost counts as copied, though its target now looks as if nothing had to be done, and the older
// one is removed.
func TestReplacedBeforeTheReplyWasLost(t *testing.T) {
	t.Parallel()
	lost := sftptest.Truncate(0)
	for name, test := range map[string]struct {
		extensions []wire.ExtensionPair
		fault      sftptest.Fault
	}{
		"at once": {sftptest.OpenSSHExtensions(), sftptest.Fault{On: wire.TypeExtended,
			Extension: wire.ExtPosixRename, Times: 1, Do: lost}},
		"step by step": {[]wire.ExtensionPair{},
			sftptest.Fault{On: wire.TypeRename, Skip: 1, Times: 1, Do: lost}},
	} {
		for _, size := range []int{3000, 600 << 10} {
			for _, whole := range []bool{true, false} { // a tree, or a single file
				b := newTreeBench(t, sftptest.Script{Extensions: test.extensions},
					sftptest.LinkConfig{})
				data := random(size)
				b.server.Files.WriteFile("/target/file", []byte("old"))
				b.server.Files.SetModTime("/target/file", oldTime)
				count := b.redials(sftptest.LinkConfig{}, nil)
				b.server.AddFaults(test.fault)
				source := filepath.Join(b.dir, "source")
				if err := os.Mkdir(source, 0o755); err != nil {
					t.Fatal(err)
				}
				file := b.local("source/file", data)
				var err error
				if whole {
					_, err = b.tree(upload, source+"/.", "/target", func(tree *treeJob) {
						tree.Options.Retry, tree.Options.Resume = onceMore, true
					})
				} else {
					_, err = b.job(upload, file, "/target/file", func(j *copyJob) {
						j.Options.Retry, j.Options.Update = onceMore, true
					})
				}
				kept, done := b.kinds(transfer.Kept, ""), b.kinds(transfer.Done, "")
				if err != nil || len(kept) != 0 || len(done) != 1 || *count != 2 {
					t.Errorf("%s, %d bytes: %q kept, %q done, %d connections, %v", name, size,
						kept, done, *count, err)
				}
				if got := b.remote("/target/file"); !bytes.Equal(got, data) {
					t.Errorf("%s, %d bytes: %d arrived", name, size, len(got))
				}
				if left := b.temporaries(); len(left) > 0 {
					t.Errorf("%s, %d bytes: %q is left", name, size, left)
				}
			}
		}
	}
}

// TestListingCut: an interrupted listing is continued, and no entry is missed or handled twice,
// although the server's order has changed.
func TestListingCut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newTreeBench(t, sftptest.Script{ReaddirNames: 10}, sftptest.LinkConfig{})
		for i := range 500 {
			b.server.Files.WriteFile(fmt.Sprintf("/source/file%d", i), random(i))
		}
		count := b.redials(sftptest.LinkConfig{ToServer: time.Millisecond,
			ToClient: time.Millisecond}, func(n int, end *sftptest.End) {
			if n < 4 {
				b.server.AddFaults(sftptest.Fault{On: wire.TypeReaddir, Skip: 8 + 5*n, Times: 1,
					Do: sftptest.Hangup()})
			}
		})
		out := filepath.Join(b.dir, "out")
		s, err := b.tree(download, "/source", out, retries(1))
		if err != nil || s.Files != 500 || s.PlannedFiles != 500 || *count < 3 {
			t.Fatalf("%d connections, %+v, %v", *count, s, err)
		}
		for i := range 500 {
			if got, err := os.ReadFile(filepath.Join(out, fmt.Sprintf("file%d", i))); err != nil ||
				!bytes.Equal(got, random(i)) {
				t.Errorf("file%d: %d bytes, %v", i, len(got), err)
			}
		}
	})
}

// TestTreeStalled: a connection that swallows everything is given up when the peer has owed an
// answer for too long, and its work continues over another.
func TestTreeStalled(t *testing.T) {
	for _, direction := range []way{upload, download} {
		synctest.Test(t, func(t *testing.T) {
			link := sftptest.LinkConfig{ToServer: time.Millisecond, ToClient: time.Millisecond}
			b := newTreeBench(t, sftptest.Script{}, sftptest.LinkConfig{})
			local := b.mixed("source", 60, 1_000_000, rand.New(rand.NewPCG(1, 2)))
			source, target := local, "/target"
			if direction == download {
				if _, err := b.tree(upload, local, target); err != nil {
					t.Fatal(err)
				}
				source, target = target, filepath.Join(b.dir, "out")
			}
			count := b.redials(link, func(n int, end *sftptest.End) {
				if n == 0 {
					end.SilenceAfter(3000)
				}
			})
			began := time.Now()
			s, err := b.tree(direction, source, target, retries(1))
			if err != nil || s.Files != 60 || *count != 2 {
				t.Fatalf("%v: %d connections, %+v, %v", direction, *count, s, err)
			}
			if took := time.Since(began); took < 60*time.Second || took > 200*time.Second {
				t.Errorf("%v: it took %v", direction, took)
			}
			var stall *usftp.StallError
			var stalled []time.Duration
			for _, e := range b.events {
				if e.Stalled > 0 {
					stalled = append(stalled, e.Stalled)
					if left := e.Stalled + e.Wait; left < 59*time.Second || left > 61*time.Second ||
						!strings.HasSuffix(e.Message, fmt.Sprintf("; reconnecting in %d s",
							(e.Wait+time.Second/2)/time.Second)) {
						t.Errorf("%v: stalled for %v, %v left, and it says %q", direction,
							e.Stalled, e.Wait, e.Message)
					}
				}
				if e.Kind == transfer.Retried && !errors.As(e.Err, &stall) {
					t.Errorf("it was lost by %v", e.Err)
				}
			}
			if len(stalled) == 0 || stalled[0] > 6*time.Second ||
				stalled[len(stalled)-1] < 50*time.Second {
				t.Errorf("%v: the stall was told %d times: %v", direction, len(stalled), stalled)
			}
		})
	}
}

// TestTreeGivenUp: after the last attempt everything ends with one sentence.
func TestTreeGivenUp(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*transfer.Options)
		most   time.Duration
		tries  int
		says   string
	}{
		"tries": {func(o *transfer.Options) { o.Retries = 4 }, 20 * time.Second, 4,
			"4 attempts to reconnect failed"},
		"time": {func(o *transfer.Options) { o.Retries, o.RetryFor = 1000, 2*time.Minute },
			2*time.Minute + 5*time.Second, 5, "within 2m0s"},
		"backoff": {func(o *transfer.Options) {
			o.Retries, o.Backoff = 50, func(int) time.Duration { return time.Millisecond }
		}, time.Second, 50, "50 attempts to reconnect failed"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newTreeBench(t, sftptest.Script{}, sftptest.LinkConfig{})
				source := b.mixed("source", 100, 1_000_000, rand.New(rand.NewPCG(3, 4)))
				b.redials(sftptest.LinkConfig{ToServer: time.Millisecond,
					ToClient: time.Millisecond},
					func(_ int, end *sftptest.End) { end.CutAfter(500_000, nil) })
				b.host.Redial = func(context.Context) (pool.Host, error) {
					return pool.Host{}, errors.New("nobody is there")
				}
				began := time.Now()
				s, err := b.tree(upload, source, "/target",
					func(tree *treeJob) { test.change(&tree.Options) })
				if err == nil || !strings.Contains(err.Error(), test.says) ||
					!strings.Contains(err.Error(), "nobody is there") ||
					!errors.Is(err, sftptest.ErrCut) {
					t.Errorf("%+v, %v", s, err)
				}
				if regexp.MustCompile(`: [a-z]+ /target.*: the SFTP conn`).MatchString(err.Error()) {
					t.Errorf("it names the request that failed first: %v", err)
				}
				if took := time.Since(began); took > test.most {
					t.Errorf("it took %v", took)
				}
				if tries := len(b.kinds(transfer.Retried, "")); tries < test.tries {
					t.Errorf("%d tries", tries)
				}
			})
		})
	}
}

// TestWriterGetsNothingTwice: an io.Writer target continues after what it was given, even if a
// connection is lost before the source is open again. If none lasts, the error says how much it
// has.
func TestWriterGetsNothingTwice(t *testing.T) {
	t.Parallel()
	for _, lost := range []int{1, 2, 3} { // connections that are lost before it is open again
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, sftptest.Script{}, sftptest.LinkConfig{})
			data := random(20 << 20)
			b.server.Files.WriteFile("/source", data)
			b.server.Files.SetModTime("/source", oldTime)
			link := sftptest.LinkConfig{ToServer: time.Millisecond, ToClient: time.Millisecond,
				RateBytesPerSec: 8 << 20}
			count := b.redials(link, func(n int, end *sftptest.End) {
				if n == 0 {
					time.AfterFunc(time.Second, func() { end.Cut(nil) })
				}
			})
			b.server.AddFaults(sftptest.Fault{On: wire.TypeOpen, Skip: 1, Times: lost,
				Do: sftptest.Hangup()})
			var got bytes.Buffer
			_, err := b.job(download, "/source", "-",
				func(j *copyJob) { j.Writer, j.Options.Retries = &got, 3 })
			if *count < 1+min(lost+1, 3) || got.Len() == 0 || !bytes.HasPrefix(data, got.Bytes()) {
				t.Errorf("%d connections, %d bytes", *count, got.Len())
			}
			said := fmt.Sprint(got.Len(), " bytes of it have been written")
			if gaveUp := lost == 3; (err == nil) == gaveUp || (got.Len() < len(data)) != gaveUp ||
				gaveUp && !strings.Contains(err.Error(), said) {
				t.Errorf("%d lost: %d bytes, %v", lost, got.Len(), err)
			}
		})
	}
}

// TestWriterReconnects: an io.Writer target continues after what it was given, unless the source
// has changed.
func TestWriterReconnects(t *testing.T) {
	t.Parallel()
	for _, changes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			link := sftptest.LinkConfig{ToServer: time.Millisecond, ToClient: time.Millisecond,
				RateBytesPerSec: 8 << 20}
			b := newBench(t, sftptest.Script{}, link)
			data := random(20 << 20)
			b.server.Files.WriteFile("/source", data)
			count := b.redials(link, func(n int, end *sftptest.End) {
				if n == 0 {
					time.AfterFunc(time.Second, func() { end.Cut(nil) })
				} else if changes {
					b.server.Files.SetModTime("/source", oldTime)
				}
			})
			var got bytes.Buffer
			r, err := b.job(download, "/source", "-",
				func(j *copyJob) { j.Writer, j.Options.Retries = &got, 1 })
			if *count != 2 || !bytes.HasPrefix(data, got.Bytes()) || got.Len() == 0 {
				t.Errorf("%d connections, %d bytes", *count, got.Len())
			}
			if changes && (!errors.Is(err, transfer.ErrSourceChanged) ||
				!strings.Contains(err.Error(), fmt.Sprint(got.Len(),
					" bytes of it have been written"))) {
				t.Errorf("of a source that has changed: %+v, %v", r, err)
			}
			if !changes && (err != nil || got.Len() != len(data) || r.Bytes != int64(len(data))) {
				t.Errorf("%d bytes, %+v, %v", got.Len(), r, err)
			}
			started := 0
			for _, e := range b.events {
				if e.Kind == transfer.Started {
					started++
				}
			}
			if started != 1 {
				t.Errorf("it was told %d times that it has begun", started)
			}
		})
	}
}

// TestVerifiedFilesAfterAUselessConnection: after a connection that brought no progress, one file
// at a time is copied. Those that wait for it keep no handle that it needs to be verified.
func TestVerifiedFilesAfterAUselessConnection(t *testing.T) {
	t.Parallel()
	for _, direction := range []way{upload, download} {
		synctest.Test(t, func(t *testing.T) {
			limits := sftptest.OpenSSHLimits()
			limits.MaxOpenHandles = 8
			on := map[way]wire.Type{upload: wire.TypeWrite, download: wire.TypeRead}[direction]
			b := newBench(t, sftptest.Script{Limits: &limits,
				Intercept: func(r sftptest.Request) []sftptest.Action {
					if r.Type == on && (r.Stream == 2 || r.Stream == 3) {
						return []sftptest.Action{sftptest.Hangup()}
					}
					return nil
				}}, sftptest.LinkConfig{})
			const files = 200
			names := numbered("f", files)
			source, target := filepath.Join(b.dir, "source"), "/target"
			fill(t, source, names...)
			if direction == download {
				if _, err := b.tree(upload, source, "/source"); err != nil {
					t.Fatal(err)
				}
				source, target = "/source", filepath.Join(b.dir, "target")
			}
			count := b.redials(sftptest.LinkConfig{ToServer: time.Millisecond}, nil)
			s, err := b.tree(direction, source, target, retries(5),
				func(tree *treeJob) { tree.Options.Verify = true })
			if err != nil || s.Files != files || *count != 3 {
				t.Errorf("%v: %+v over %d connections, %v", direction, s.Totals, *count, err)
			}
		})
	}
}

// TestGivingUpNamesWhatIsLeft: a copy whose first connection brought something, and the next ones
// nothing, says what is left and how to go on from there.
func TestGivingUpNamesWhatIsLeft(t *testing.T) {
	t.Parallel()
	for _, direction := range []way{upload, download} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, sftptest.Script{}, sftptest.LinkConfig{})
			data := random(20 << 20)
			source, target := b.local("source", data), "/target"
			b.server.Files.WriteFile("/source", data)
			if direction == download {
				source, target = "/source", filepath.Join(b.dir, "target")
			}
			link := sftptest.LinkConfig{ToServer: time.Millisecond, ToClient: time.Millisecond,
				RateBytesPerSec: 8 << 20}
			b.redials(link, func(n int, end *sftptest.End) {
				if n == 0 {
					time.AfterFunc(time.Second, func() { end.Cut(nil) })
				} else {
					b.server.AddFaults(sftptest.Fault{Do: sftptest.Hangup()})
				}
			})
			r, err := b.job(direction, source, target, func(j *copyJob) {
				j.Options.Retries, j.Options.Journal = 2, filepath.Join(b.dir, "journal")
			})
			if err == nil {
				t.Fatal("it went on without a host")
			}
			left := b.temporaries()
			if len(left) != 1 || r.LeftBehind == "" || filepath.Base(r.LeftBehind) !=
				filepath.Base(left[0]) || r.Bytes == 0 ||
				!strings.Contains(err.Error(), "transfer.Options.Resume continues from there") {
				t.Errorf("%v: %q is left: %+v, %v", direction, left, r, err)
			}
		})
	}
}

// TestHostThatIsLate: a host that makes a temporary file only after the connection that asked for
// it was lost, and the file has been copied over another one, keeps it until the next run.
func TestHostThatIsLate(t *testing.T) {
	for _, size := range []int{100, 1 << 20} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			b := newBench(t, sftptest.Script{Faults: []sftptest.Fault{
				{On: wire.TypeOpen, Times: 1, Do: sftptest.Hangup()}}}, sftptest.LinkConfig{})
			b.redials(sftptest.LinkConfig{}, nil)
			root := filepath.Join(b.dir, "tree")
			if err := os.Mkdir(root, 0o755); err != nil {
				t.Fatal(err)
			}
			for i := range 5 {
				b.local(fmt.Sprintf("tree/file%d", i), random(size))
			}
			for run := range 2 {
				_, err := b.tree(upload, root, "/target", func(j *treeJob) {
					j.Options.Retry = onceMore
					j.Options.Journal = filepath.Join(b.dir, "journal")
					j.Options.NoTargetDirectory = true
				})
				asked := b.server.Requests(wire.TypeOpen)[0].Path
				if left := b.temporaries(); err != nil || len(left) > 0 ||
					!strings.Contains(asked, ".usftp-") {
					t.Fatalf("run %d: %v; left are %q, of %q", run, err, left, asked)
				}
				if run == 0 {
					b.server.Files.WriteFile(asked, nil)
				}
			}
		})
	}
}
