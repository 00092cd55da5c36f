package transfer_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/checksum"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// mixedTree are files in several directories, whose contents say which they are. Some are larger
// than what is sent in one piece.
func mixedTree(n int) map[string][]byte {
	files := make(map[string][]byte)
	for i := range n {
		size := 10 + i
		if i%50 == 7 {
			size = 300<<10 + i
		}
		name := fmt.Sprintf("d%d/f%03d", i%5, i)
		files[name] = bytes.Repeat([]byte(name+"\n"), size/len(name)+1)[:size]
	}
	return files
}

func (b *bench) localTree(name string, files map[string][]byte) string {
	b.t.Helper()
	top := filepath.Join(b.dir, name)
	for path, data := range files {
		path = filepath.Join(top, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, data, 0o644)); err != nil {
			b.t.Fatal(err)
		}
	}
	return top
}

// wantTree fails unless the target of a copy has exactly these files.
func (b *bench) wantTree(direction way, files map[string][]byte) {
	b.t.Helper()
	wrong := 0
	for path, data := range files {
		got, err := b.server.Files.ReadFile("/target/" + path)
		if direction == download {
			got, err = os.ReadFile(filepath.Join(b.dir, "target", path))
		}
		if err != nil || !bytes.Equal(got, data) {
			wrong++
			if wrong < 4 {
				b.t.Errorf("%s: %.20q (%d bytes, %v), want %.20q (%d bytes)", path, got, len(got),
					err, data, len(data))
			}
		}
	}
	if wrong > 0 {
		b.t.Errorf("%d of %d files are wrong", wrong, len(files))
	}
	if left := b.temporaries(); left != nil {
		b.t.Errorf("left behind: %q", left)
	}
}

// mostOpen returns how many handles were open at once, at most, once more than there are different
// ones had been, and all were closed.
func mostOpen(requests []sftptest.Request, different int) (most int) {
	open, shared, closed := 0, false, false
	for _, r := range requests {
		switch r.Type {
		case wire.TypeOpen, wire.TypeOpendir:
			open++
		case wire.TypeClose:
			open--
		}
		shared = shared || open > different
		closed = closed || shared && open == 0
		if closed {
			most = max(most, open)
		}
	}
	return most
}

// On a host that gives one handle to several open files each file arrives whole, in its own place.
func TestSharedHandles(t *testing.T) {
	files := mixedTree(100)
	other := make(map[string][]byte)
	for name := range files {
		other[name] = []byte(strings.Repeat("what was there before ", 5))
	}
	for _, handles := range []int{1, 2} {
		for _, ordered := range []bool{false, true} {
			for _, direction := range []way{upload, download} {
				for _, place := range []string{"new", "existing", "in place"} {
					name := fmt.Sprintf("%d handles, in order %v, %v, %s", handles, ordered,
						direction, place)
					t.Run(name, func(t *testing.T) {
						t.Parallel()
						synctest.Test(t, func(t *testing.T) {
							script := sftptest.Script{SharedHandles: handles}
							link := sftptest.LinkConfig{ToServer: 100 * time.Microsecond}
							known := usftp.WithServerVersion("")
							if ordered {
								known = inOrder
							}
							server := newBench(t, script, link, known)
							testSharedHandles(t, server, direction, place, files, other)
							if most := mostOpen(server.server.Requests(), handles); most > 1 {
								t.Errorf("%d handles were open at once, after all were closed", most)
							}
						})
					})
				}
			}
		}
	}
}

func testSharedHandles(t *testing.T, b *bench, direction way, place string,
	files, other map[string][]byte) {
	source, target := "/from/target", b.dir
	if direction == upload {
		source, target = b.localTree("from/target", files), "/"
	}
	for name, data := range files {
		if direction == download {
			b.server.Files.WriteFile("/from/target/"+name, data)
		}
		if place != "new" && direction == upload {
			b.server.Files.WriteFile("/target/"+name, other[name])
		}
	}
	if place != "new" && direction == download {
		b.localTree("target", other)
	}
	sum, err := b.tree(direction, source, target, func(j *treeJob) {
		if place == "in place" {
			j.Options.Placement = transfer.PlaceDirect
		}
		j.Options.Verify = place == "new"
	})
	if err != nil {
		t.Errorf("%v (%+v)", err, sum)
	}
	b.wantTree(direction, files)
}

// Syncs and checks read listings and files at the same time.
func TestSyncAndCheckWithSharedHandles(t *testing.T) {
	t.Parallel()
	files := mixedTree(100)
	for _, handles := range []int{1, 2} {
		for _, direction := range []way{upload, download} {
			t.Run(fmt.Sprintf("%d handles, %v", handles, direction), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newTreeBench(t, sftptest.Script{SharedHandles: handles, ReaddirNames: 7},
						sftptest.LinkConfig{ToServer: 100 * time.Microsecond})
					src, dst := "/from", filepath.Join(b.dir, "target")
					if direction == upload {
						src, dst = b.localTree("from", files), "/target"
					}
					for name, data := range files {
						if direction == download {
							b.server.Files.WriteFile("/from/"+name, data)
						}
					}
					b.server.Files.WriteFile("/target/d1/extra", []byte("to be deleted"))
					b.localTree("target", map[string][]byte{"d1/extra": []byte("to be deleted"),
						"d1/f001": []byte("old contents, longer than the new ones by far, as it is")})
					job := syncJob{direction: direction, far: b.host, src: src, dst: dst}
					job.options.Delete = true
					job.must(t)
					b.wantTree(direction, files)
					job.options.Checksum = true
					if again := job.must(t); again.Files != 0 {
						t.Errorf("the second sync has copied %d files", again.Files)
					}
					var lines strings.Builder
					for name, data := range files {
						fmt.Fprintf(&lines, "%x  %s\n", sha256.Sum256(data), name)
					}
					list, err := checksum.Open(b.local("sums", []byte(lines.String())), checksum.SHA256)
					if err != nil {
						t.Fatal(err)
					}
					defer list.Close()
					check := checkJob{Host: b.host, Dir: "/target", List: list}
					if direction == download {
						check.Dir = "/from"
					}
					if sum, err := check.Run(t.Context()); err != nil {
						t.Errorf("%v (%+v)", err, sum)
					}
				})
			})
		}
	}
}

// A copy within such a host, which would need two handles at once, fails at once and says why. The
// target keeps what it had.
func TestRelayWithinAHostWithSharedHandles(t *testing.T) {
	for _, size := range []int{100, 1 << 20} {
		b := newTreeBench(t, sftptest.Script{SharedHandles: 1}, sftptest.LinkConfig{})
		b.server.Files.WriteFile("/from/f", bytes.Repeat([]byte("x"), size))
		b.server.Files.WriteFile("/target/from/f", []byte("old"))
		_, err := relayTree(t.Context(), b.host, "/from", b.host, "/target", transfer.Options{})
		if err == nil || !strings.Contains(fmt.Sprint(err), "by way of this machine") {
			t.Errorf("the error is %v", err)
		}
		if got := b.remote("/target/from/f"); string(got) != "old" || b.temporaries() != nil {
			t.Errorf("the target is %.20q; left behind: %q", got, b.temporaries())
		}
	}
}

// Between two of them everything arrives: neither waits for the other while that one waits for it.
func TestRelayBetweenHostsWithSharedHandles(t *testing.T) {
	files := mixedTree(60)
	script := sftptest.Script{SharedHandles: 1}
	from, to := newTreeBench(t, script, sftptest.LinkConfig{}), newTreeBench(t, script,
		sftptest.LinkConfig{})
	for name, data := range files {
		from.server.Files.WriteFile("/target/"+name, data)
	}
	_, err := relayTree(t.Context(), from.host, "/target", to.host, "/target",
		transfer.Options{Verify: true})
	if err != nil {
		t.Error(err)
	}
	to.wantTree(upload, files)
}

// More files than may be open are under way there: none that waits for its turn keeps the one whose
// turn it is from verifying.
func TestVerifiedRelayOfManyFilesWithSharedHandles(t *testing.T) {
	t.Parallel()
	files := make(map[string][]byte)
	for _, name := range numbered("f", 200) {
		files[name] = []byte(name)
	}
	script := sftptest.Script{SharedHandles: 1, Extensions: []wire.ExtensionPair{}}
	link := sftptest.LinkConfig{ToServer: time.Millisecond}
	from, to := newTreeBench(t, script, link), newTreeBench(t, script, link)
	for name, data := range files {
		from.server.Files.WriteFile("/target/"+name, data)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := relayTree(t.Context(), from.host, "/target", to.host, "/target",
			transfer.Options{Verify: true})
		ended <- err
	}()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it does not end")
	}
	to.wantTree(upload, files)
}

// openingWriter opens another file of the host once it has got some bytes.
type openingWriter struct {
	bytes.Buffer
	open func() error
}

func (w *openingWriter) Write(p []byte) (int, error) {
	n, err := w.Buffer.Write(p)
	if open := w.open; open != nil {
		w.open = nil
		open()
	}
	return n, err
}

// TestSharedHandleOfAStream: a stream that has got bytes gets none of them twice.
func TestSharedHandleOfAStream(t *testing.T) {
	b := newBench(t, sftptest.Script{SharedHandles: 1}, sftptest.LinkConfig{})
	data := random(40 << 20)
	b.server.Files.WriteFile("/file", data)
	b.server.Files.WriteFile("/other", []byte("other"))
	w := &openingWriter{open: func() error {
		f, err := b.host.Client.Open("/other")
		if err == nil {
			f.Close()
		}
		return err
	}}
	_, err := transfer.Copy(t.Context(), transfer.Writer(w), transfer.Remote(b.host, "/file"),
		transfer.Options{})
	if !errors.Is(err, usftp.ErrSharedHandle) || !bytes.HasPrefix(data, w.Bytes()) {
		t.Errorf("%v, after %d bytes", err, w.Len())
	}
}
