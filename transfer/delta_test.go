package transfer_test

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/usftp/usftp/checksum"
	"github.com/usftp/usftp/internal/soak"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// edits are typical changes to files.
var edits = map[string]func(r *rand.Rand, data []byte) []byte{
	"nothing": func(_ *rand.Rand, data []byte) []byte { return data },
	"overwrite": func(r *rand.Rand, data []byte) []byte {
		for range 20 {
			at := r.Intn(len(data))
			r.Read(data[at:min(len(data), at+r.Intn(10_000))])
		}
		return data
	},
	"insert": func(r *rand.Rand, data []byte) []byte {
		for range 5 {
			at := r.Intn(len(data))
			data = slices.Insert(data, at, random(1+r.Intn(30_000))...)
		}
		return data
	},
	"insert in front": func(r *rand.Rand, data []byte) []byte {
		return append(random(100_001), data...)
	},
	"delete": func(r *rand.Rand, data []byte) []byte {
		for range 5 {
			at := r.Intn(len(data) - 20_000)
			data = slices.Delete(data, at, at+1+r.Intn(3_000))
		}
		return data
	},
	"truncate": func(r *rand.Rand, data []byte) []byte {
		return data[:len(data)-1-r.Intn(len(data)/2)]
	},
	"append": func(r *rand.Rand, data []byte) []byte {
		return append(data, random(1+r.Intn(1<<20))...)
	},
	"swap halves": func(_ *rand.Rand, data []byte) []byte {
		return append(bytes.Clone(data[len(data)/2:]), data[:len(data)/2]...)
	},
	"zeros": func(r *rand.Rand, data []byte) []byte {
		clear(data[len(data)/4 : len(data)/2])
		return append(data, make([]byte, 300_000)...)
	},
	"repeat": func(r *rand.Rand, data []byte) []byte { return append(data, data...) },
	"rewrite": func(r *rand.Rand, data []byte) []byte {
		r.Read(data)
		return data
	},
}

// deltaFiles makes the files of a copy: the new one at one end, the old one at the other.
func deltaFiles(t *testing.T, direction way, far string, fresh, old []byte) (source, target,
	stored string) {
	t.Helper()
	near := t.TempDir()
	newPath, oldPath := filepath.Join(near, "new"), filepath.Join(far, "old")
	source, target = newPath, "/old"
	if direction == download {
		newPath, oldPath = filepath.Join(far, "new"), filepath.Join(near, "old")
		source, target = "/new", oldPath
	}
	for name, data := range map[string][]byte{newPath: fresh, oldPath: old} {
		if err := os.WriteFile(name, data, 0o640); err != nil {
			t.Fatal(err)
		}
	}
	return source, target, oldPath
}

func always(j *copyJob) { j.Options.Delta = transfer.DeltaAlways }

func TestDeltaIsTheSameAsACopy(t *testing.T) {
	t.Parallel()
	seed := rand.Int63()
	t.Logf("seed %d", seed)
	host, far := ourHost(t)
	for _, direction := range []way{upload, download} {
		for name, edit := range edits {
			for _, size := range []int{60_001, 170_000, 3<<20 + 17} {
				t.Run(fmt.Sprintf("%v/%s/%d", direction, name, size), func(t *testing.T) {
					r := rand.New(rand.NewSource(seed))
					old := make([]byte, size)
					r.Read(old)
					fresh := edit(r, bytes.Clone(old))
					source, target, stored := deltaFiles(t, direction, far, fresh, old)
					j := copyJob{Host: host, Direction: direction, Source: source, Target: target}
					always(&j)
					j.Options.Sparse = r.Intn(2) == 0
					result, err := j.Run(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					got, err := os.ReadFile(stored)
					if err != nil || !bytes.Equal(got, fresh) {
						t.Fatalf("%d bytes arrived, which are not the source's %d: %v", len(got),
							len(fresh), err)
					}
					if result.Bytes != int64(len(fresh)) ||
						result.Verified != transfer.VerifiedByHash {
						t.Errorf("%+v", result)
					}
					if name == "nothing" && result.Reused != int64(len(fresh)) ||
						name == "rewrite" && result.Reused != 0 {
						t.Errorf("%d bytes of %d came from the old file", result.Reused, len(fresh))
					}
					nothingIn(t, "litter", far, "old", "new")
				})
			}
		}
	}
}

// deltaHost is package server over a directory, on a stream that counts, whose replies pass through
// change, which returns what arrives instead of each.
func deltaHost(t *testing.T, change func(packet []byte) [][]byte) (pool.Host, *sftptest.Counter,
	string) {
	t.Helper()
	dir := t.TempDir()
	files, err := osfs.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { files.Close() })
	host, count := deltaHostOf(t, files, change)
	return host, count, dir
}

// deltaHostOf is deltaHost over any files.
func deltaHostOf(t *testing.T, files server.FS, change func(packet []byte) [][]byte) (pool.Host,
	*sftptest.Counter) {
	t.Helper()
	near, _ := serve(t, files, nil)
	var stream io.ReadWriteCloser = near
	if change != nil {
		r, w := io.Pipe()
		go passReplies(w, near, change)
		stream = changed{r, near}
	}
	count := sftptest.NewCounter(stream)
	return connect(t, count, ours), count
}

type changed struct {
	io.Reader
	io.WriteCloser
}

// passReplies forwards packets through change.
func passReplies(w *io.PipeWriter, r io.Reader, change func(packet []byte) [][]byte) {
	for {
		header := make([]byte, wire.LengthSize)
		_, err := io.ReadFull(r, header)
		packet := make([]byte, binary.BigEndian.Uint32(header))
		if err == nil {
			_, err = io.ReadFull(r, packet)
		}
		if err != nil {
			w.CloseWithError(err)
			return
		}
		for _, p := range change(packet) {
			w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(p))), p...))
		}
	}
}

// changeLists changes the lists of chunks in replies.
func changeLists(change func(list []wire.Chunk)) func(packet []byte) [][]byte {
	return func(packet []byte) [][]byte {
		kind, id, body, err := wire.ParseHeader(packet)
		var reply wire.ChunksReply
		if err != nil || kind != wire.TypeExtendedReply || reply.Parse(body) != nil ||
			reply.Len() < 2 {
			return [][]byte{packet}
		}
		list := slices.Collect(reply.All())
		change(list)
		reply.List = nil
		for _, c := range list {
			reply.List = wire.AppendChunk(reply.List, c)
		}
		return [][]byte{reply.Append(nil, id)[wire.LengthSize:]}
	}
}

// TestListsThatLie: whatever a host claims about its chunks, the copy equals the source.
func TestListsThatLie(t *testing.T) {
	t.Parallel()
	for name, lie := range map[string]func(list []wire.Chunk){
		"another order": func(list []wire.Chunk) {
			for i := 1; i < len(list)-1; i += 2 {
				list[i-1], list[i] = list[i], list[i-1]
			}
		},
		"all the same": func(list []wire.Chunk) {
			for i := range list[:len(list)-1] {
				list[i] = list[0]
			}
		},
		"no length": func(list []wire.Chunk) { list[0].Length = 0 },
	} {
		for _, direction := range []way{upload, download} {
			t.Run(fmt.Sprintf("%s, %v", name, direction), func(t *testing.T) {
				host, _, far := deltaHost(t, changeLists(lie))
				old := random(2 << 20)
				fresh := slices.Insert(bytes.Clone(old), 1<<20, random(10_000)...)
				source, target, stored := deltaFiles(t, direction, far, fresh, old)
				j := copyJob{Host: host, Direction: direction, Source: source, Target: target}
				always(&j)
				var notes []string
				j.Options.Events = func(e transfer.Event) {
					if e.Kind == transfer.Note || e.Kind == transfer.Warning {
						notes = append(notes, e.Message)
					}
				}
				result, err := j.Run(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if got, err := os.ReadFile(stored); err != nil || !bytes.Equal(got, fresh) {
					t.Errorf("what arrived is not the source: %v", err)
				}
				if name == "another order" && (result.Reused != 0 || len(notes) != 1 ||
					!strings.Contains(notes[0], "all of it is copied")) {
					t.Errorf("%d bytes came from the old file; notes: %q", result.Reused, notes)
				}
				nothingIn(t, "litter", far, "old", "new")
				nothingIn(t, "litter", filepath.Dir(stored), "old", "new")
			})
		}
	}
}

// TestDeltaIsNotTriedInVain: no delta for small files, on a fast link, for files with little in
// common, or with DeltaNever.
func TestDeltaIsNotTriedInVain(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]transfer.Delta{"never": transfer.DeltaNever,
		"automatic, on a fast link": transfer.DeltaAuto} {
		for _, direction := range []way{upload, download} {
			t.Run(fmt.Sprintf("%s, %v", name, direction), func(t *testing.T) {
				// Time is a bubble's: a busy machine would make the link look slow.
				synctest.Test(t, func(t *testing.T) {
					host, count, far := deltaHost(t, nil)
					data := random(5 << 20)
					source, target, stored := deltaFiles(t, direction, far, data, data)
					j := copyJob{Host: host, Direction: direction, Source: source, Target: target}
					j.Options.Delta = mode
					result, err := j.Run(t.Context())
					if err != nil || result.Reused != 0 {
						t.Errorf("%+v, %v", result, err)
					}
					if n := count.Counts().PacketsSent[wire.TypeExtended]; n > 3 { // limits, rename
						t.Errorf("%d extended requests", n)
					}
					if got, _ := os.ReadFile(stored); !bytes.Equal(got, data) {
						t.Error("what arrived is not the source")
					}
				})
			})
		}
	}
	// A rate limit makes the link slow. In a bubble it is slow whatever the machine is doing.
	data := random(5 << 20)
	for name, c := range map[string]struct {
		old    []byte
		reused bool
	}{"the same": {data, true}, "nothing in common": {noiseOf(7, 5<<20), false},
		"too short": {data[:100_000], false}} {
		t.Run("slow link, "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				host, _, far := deltaHost(t, nil)
				source, target, stored := deltaFiles(t, upload, far, data, c.old)
				j := copyJob{Host: host, Direction: upload, Source: source, Target: target}
				j.Options.Delta, j.Options.RateLimit = transfer.DeltaAuto, 20<<20
				j.Options.Hash, j.Options.Verify = checksum.SHA256, true
				result, err := j.Run(t.Context())
				if got, _ := os.ReadFile(stored); err != nil || (result.Reused > 0) != c.reused ||
					!bytes.Equal(got, data) {
					t.Errorf("%+v, %v", result, err)
				}
				if sum := sha256.Sum256(data); !bytes.Equal(result.Hash.Sum, sum[:]) {
					t.Errorf("its hash is %v", result.Hash)
				}
			})
		})
	}
}

func noiseOf(seed int64, n int) []byte {
	block, err := aes.NewCipher(fmt.Appendf(nil, "noise%011d", seed))
	if err != nil {
		panic(err)
	}
	p := make([]byte, n)
	cipher.NewCTR(block, make([]byte, aes.BlockSize)).XORKeyStream(p, p)
	return p
}

// interruptedDelta interrupts a delta of 12 MiB in its second half, which the old file does not
// have. The job that it returns runs it again, from fresh to stored; left is what it left.
func interruptedDelta(t *testing.T, host pool.Host, far string, direction way,
	resume bool) (j copyJob, stored, left string, fresh []byte) {
	t.Helper()
	old := random(12 << 20)
	fresh = append(bytes.Clone(old[:6<<20]), noiseOf(3, 6<<20)...)
	source, target, stored := deltaFiles(t, direction, far, fresh, old)
	stop := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	j = copyJob{Host: host, Direction: direction, Source: source, Target: target}
	always(&j)
	j.Options.Journal, j.Options.Resume = filepath.Join(t.TempDir(), "journal"), resume
	j.Options.RateLimit = 4 << 20
	j.Options.SetProgressEvery(1e6)
	j.Options.Events = func(e transfer.Event) {
		if e.Kind == transfer.Progress && e.Bytes > 7<<20 {
			cancel(stop)
		}
	}
	result, err := j.Run(ctx)
	if !errors.Is(err, stop) || result.LeftBehind == "" {
		t.Fatalf("it left %q behind and ended with %v", result.LeftBehind, err)
	}
	if got, _ := os.ReadFile(stored); !bytes.Equal(got, old) {
		t.Error("the old file has changed")
	}
	j.Options.RateLimit, j.Options.Events = 0, nil
	left = filepath.Join(filepath.Dir(stored), filepath.Base(result.LeftBehind))
	return j, stored, left, fresh
}

// TestInterruptedDelta: what an interrupted delta leaves is continued or removed.
func TestInterruptedDelta(t *testing.T) {
	t.Parallel()
	for _, direction := range []way{upload, download} {
		for _, resume := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, resume %v", direction, resume), func(t *testing.T) {
				host, _, far := deltaHost(t, nil)
				j, stored, _, fresh := interruptedDelta(t, host, far, direction, resume)
				result, err := j.Run(t.Context())
				if got, _ := os.ReadFile(stored); err != nil || !bytes.Equal(got, fresh) {
					t.Errorf("what arrived is not the source: %v", err)
				}
				if resume != (result.Resumed > 6<<20) {
					t.Errorf("it went on from %d", result.Resumed)
				}
				nothingIn(t, "litter", far, "old", "new")
				nothingIn(t, "litter", filepath.Dir(stored), "old", "new")
			})
		}
	}
}

// TestDeltaSendsWhatHasChanged compares the bytes sent with rsync's.
func TestDeltaSendsWhatHasChanged(t *testing.T) {
	t.Parallel()
	old := noiseOf(1, soak.Pick(16, 64)<<20)
	r := rand.New(rand.NewSource(2))
	hundred := bytes.Clone(old)
	for range 100 {
		at := r.Intn(len(hundred) - len(hundred)/10_000)
		r.Read(hundred[at : at+len(hundred)/10_000])
	}
	for name, fresh := range map[string][]byte{"a hundred places": hundred,
		"in front": append(noiseOf(4, 1<<20), old...)} {
		most := rsyncSends(t, old, fresh) * 3 / 2
		for _, direction := range []way{upload, download} {
			t.Run(fmt.Sprintf("%s, %v", name, direction), func(t *testing.T) {
				host, count, far := deltaHost(t, nil)
				source, target, _ := deltaFiles(t, direction, far, fresh, old)
				j := copyJob{Host: host, Direction: direction, Source: source, Target: target}
				always(&j)
				if _, err := j.Run(t.Context()); err != nil {
					t.Fatal(err)
				}
				counts := count.Counts()
				if moved := counts.BytesSent + counts.BytesReceived; moved > most {
					t.Errorf("%d bytes travelled, want %d at most", moved, most)
				} else {
					t.Logf("%d bytes travelled of %d that may", moved, most)
				}
			})
		}
	}
}

// rsyncSends returns how many bytes rsync sends in both directions.
func rsyncSends(t *testing.T, old, fresh []byte) int64 {
	t.Helper()
	path := testenv.Program(t, "rsync")
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	for name, data := range map[string][]byte{from: fresh, to: old} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command(path, "--no-whole-file", "--ignore-times", "--stats", from,
		to).CombinedOutput()
	if err != nil {
		t.Fatalf("rsync: %v: %s", err, out)
	}
	sum := int64(0)
	for _, m := range regexp.MustCompile(
		`Total bytes (?:sent|received): ([0-9,.]+)`).FindAllSubmatch(out, -1) {
		n, err := strconv.ParseInt(strings.NewReplacer(",", "", ".", "").Replace(string(m[1])), 10,
			64)
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	if sum == 0 {
		t.Fatalf("rsync says nothing of bytes: %s", out)
	}
	return sum
}
