package transfer_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeebo/blake3"

	"github.com/usftp/usftp/checksum"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// hashOf hashes data.
func hashOf(a checksum.Algorithm, data []byte) checksum.Hash {
	sum := sha256.Sum256(data)
	if a == checksum.BLAKE3 {
		sum = blake3.Sum256(data)
	}
	return checksum.Hash{Algorithm: a, Sum: sum[:]}
}

func withHash(a checksum.Algorithm) func(*copyJob) {
	return func(j *copyJob) { j.Options.Hash = a }
}

// The hash computed on the way is that of the file, in both directions, for files of every size and
// for streams.
func TestHashInPassing(t *testing.T) {
	t.Parallel()
	for _, a := range []checksum.Algorithm{checksum.SHA256, checksum.BLAKE3} {
		for _, size := range []int{0, 1, 261120, 256 << 10, 7<<20 + 3} {
			for _, limit := range []int64{0, 1 << 40} {
				name := fmt.Sprintf("%s, %d bytes, limit %d", a, size, limit)
				b := newBench(t, sftptest.Script{}, sftptest.LinkConfig{})
				data := random(size)
				want := hashOf(a, data)
				limited := func(j *copyJob) { j.Options.RateLimit = limit }
				up, err := b.job(upload, b.local("source", data), "/target", withHash(a),
					limited)
				if err != nil || !up.Hash.Equal(want) {
					t.Errorf("%s up: %v, %v", name, up.Hash, err)
				}
				last := b.events[len(b.events)-1]
				if text, _ := json.Marshal(last); last.Name != "target" ||
					!strings.Contains(string(text), fmt.Sprintf(`"hash":"%s:%x"`, a, want.Sum)) {
					t.Errorf("%s: the last event is %s", name, text)
				}
				down, err := b.job(download, "/target", b.dir+"/back", withHash(a),
					limited)
				if err != nil || !down.Hash.Equal(want) || !bytes.Equal(b.read("back"), data) {
					t.Errorf("%s down: %v, %v", name, down.Hash, err)
				}
				var got bytes.Buffer
				down, err = b.job(download, "/target", "", withHash(a), limited,
					func(j *copyJob) { j.Writer, j.Options.Verify = &got, true })
				if err != nil || !down.Hash.Equal(want) ||
					down.Verified != transfer.VerifiedByReading {
					t.Errorf("%s to a writer: %+v, %v", name, down, err)
				}
				up, err = b.job(upload, "", "/stream", withHash(a), limited,
					func(j *copyJob) {
						j.Reader, j.Options.Verify = io.LimitReader(bytes.NewReader(data), 1<<40),
							true
					})
				if err != nil || !up.Hash.Equal(want) || up.Verified != transfer.VerifiedByReading {
					t.Errorf("%s from a reader: %+v, %v", name, up, err)
				}
			}
		}
	}
	b := newBench(t, sftptest.Script{}, sftptest.LinkConfig{})
	if r, err := b.job(upload, b.local("source", []byte("x")), "/target"); err != nil ||
		!r.Hash.IsZero() {
		t.Errorf("a hash that nobody asked for: %+v, %v", r, err)
	}
	if text, _ := json.Marshal(b.events[len(b.events)-1]); strings.Contains(string(text), "hash") {
		t.Errorf("%s", text)
	}
}

// If a server accepts packets only one by one and some are sent again, they are hashed once.
func TestHashOfWhatIsSentAgain(t *testing.T) {
	b := newBench(t, sftptest.Script{OneWrite: true}, sftptest.LinkConfig{})
	data := random(3 << 20)
	r, err := b.job(upload, b.local("source", data), "/target", withHash(checksum.SHA256))
	if err != nil || !r.Hash.Equal(hashOf(checksum.SHA256, data)) ||
		!bytes.Equal(b.remote("/target"), data) {
		t.Errorf("%+v, %v", r, err)
	}
}

// What an earlier run has copied is part of the hash.
func TestHashOfResumed(t *testing.T) {
	t.Parallel()
	const size = 40 << 20
	for _, direction := range []way{upload, download} {
		t.Run(direction.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				link := sftptest.LinkConfig{ToServer: time.Millisecond, ToClient: time.Millisecond,
					RateBytesPerSec: 8 << 20}
				b := newBench(t, sftptest.Script{}, link)
				data := random(size)
				source, target := b.local("source", data), "/target"
				if direction == download {
					b.server.Files.WriteFile("/source", data)
					source, target = "/source", filepath.Join(b.dir, "target")
				}
				options := func(j *copyJob) {
					j.Options = transfer.Options{Journal: filepath.Join(b.dir, "journal"),
						Resume: true, Hash: checksum.SHA256, Verify: true}
				}
				ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
				defer cancel()
				if first, err := b.jobContext(ctx, direction, source, target,
					options); err == nil || first.Bytes == 0 {
					t.Fatalf("%+v, %v", first, err)
				}
				r, err := b.job(direction, source, target, options)
				if err != nil || r.Resumed == 0 || !r.Hash.Equal(hashOf(checksum.SHA256, data)) ||
					r.Verified == "" {
					t.Errorf("%+v, %v", r, err)
				}
			})
		})
	}
}

// A file that travels over several connections, in any order, is hashed in order.
func TestHashOfStriped(t *testing.T) {
	t.Parallel()
	const trip = 400 * time.Millisecond
	data := random(48 << 20)
	want := hashOf(checksum.BLAKE3, data)
	synctest.Test(t, func(t *testing.T) {
		h := &farHost{server: sftptest.NewServer(t, sftptest.Script{}),
			link: sftptest.LinkConfig{ToServer: trip / 2, ToClient: trip / 2, Window: 2 << 20}}
		first, further, end := h.open(t, pool.Config{})
		defer end()
		host := pool.Host{Client: first, Name: "far", Pool: further}
		dir := t.TempDir()
		source, back := filepath.Join(dir, "source"), filepath.Join(dir, "back")
		if err := os.WriteFile(source, data, 0o644); err != nil {
			t.Fatal(err)
		}
		options := transfer.Options{Hash: checksum.BLAKE3, Verify: true}
		up, err := uploadFile(t.Context(), host, source, "/target", options)
		if err != nil || up.Stripes == 0 || !up.Hash.Equal(want) ||
			up.Verified != transfer.VerifiedByReading {
			t.Errorf("%+v, %v", up, err)
		}
		down, err := downloadFile(t.Context(), host, "/target", back, options)
		if err != nil || down.Stripes == 0 || !down.Hash.Equal(want) ||
			down.Verified != transfer.VerifiedByReading {
			t.Errorf("%+v, %v", down, err)
		}
	})
}

// The files of a tree are hashed too, small and large, including those already at the target.
func TestHashesOfTree(t *testing.T) {
	b := newTreeBench(t, sftptest.Script{}, sftptest.LinkConfig{})
	source := b.sample("source")
	hashed := func(tree *treeJob) {
		tree.Options.Hash, tree.Options.Resume = checksum.BLAKE3,
			true
	}
	check := func(what string, kind transfer.Kind, prefix string) {
		t.Helper()
		files := 0
		for _, e := range b.events {
			if e.Kind != kind || e.Totals != nil {
				continue
			}
			files++
			data, err := os.ReadFile(filepath.Join(source, strings.TrimPrefix(e.Name, prefix)))
			if err != nil || !e.Hash.Equal(hashOf(checksum.BLAKE3, data)) {
				t.Errorf("%s: %q has the hash %v; %v", what, e.Name, e.Hash, err)
			}
		}
		if files != 9 {
			t.Errorf("%s: %d files", what, files)
		}
	}
	for _, run := range []struct {
		what           string
		direction      way
		source, target string
		kind           transfer.Kind
		prefix         string
	}{
		{"up", upload, source, "/copy", transfer.Done, ""},
		{"up again", upload, source + "/.", "/copy", transfer.Kept, ""},
		{"up into it", upload, source, "/copy", transfer.Done, "source/"},
		{"down", download, "/copy/source", b.dir + "/back", transfer.Done, ""},
		{"down again", download, "/copy/source/.", b.dir + "/back", transfer.Kept, ""},
		{"down into it", download, "/copy/source", b.dir + "/back", transfer.Done,
			"source/"},
	} {
		if _, err := b.tree(run.direction, run.source, run.target, hashed); err != nil {
			t.Errorf("%s: %v", run.what, err)
		}
		check(run.what, run.kind, run.prefix)
	}
}

// With check-file nothing is read back, and the algorithm is the best that both sides have. The
// scripted server knows SHA-256 but not BLAKE3, which shows in the requests.
func TestVerifyChoosesHash(t *testing.T) {
	name := wire.ExtensionPair{Name: wire.ExtCheckFileName, Data: "1"}
	says := func(list string) []wire.ExtensionPair {
		return []wire.ExtensionPair{name, {Name: wire.ExtCheckFileAlgorithms, Data: list}}
	}
	for what, test := range map[string]struct {
		offer []wire.ExtensionPair
		hash  checksum.Algorithm
		reads bool
	}{
		"not told": {offer: []wire.ExtensionPair{name}},
		"not told, BLAKE3 is wanted": {offer: []wire.ExtensionPair{name},
			hash: checksum.BLAKE3},
		"both, the better is asked for": {offer: says("sha256," + wire.HashBLAKE3),
			reads: runtime.GOARCH == "amd64"},
		"both, SHA-256 is wanted": {offer: says(wire.HashBLAKE3 + ",sha256"),
			hash: checksum.SHA256},
		"both, BLAKE3 is wanted": {offer: says(wire.HashBLAKE3 + ",sha256"),
			hash: checksum.BLAKE3, reads: true},
		"SHA-256 alone, BLAKE3 is wanted": {offer: says("sha256,md5"), hash: checksum.BLAKE3},
		"by handle": {
			offer: []wire.ExtensionPair{{Name: wire.ExtCheckFileHandle, Data: "1"}}},
		"by handle, as Paramiko": {offer: []wire.ExtensionPair{{Name: wire.ExtCheckFile,
			Data: "md5,sha256"}}},
		"no hashes":                    {reads: true},
		"no hashes, but one is wanted": {hash: checksum.BLAKE3, reads: true},
	} {
		for _, size := range []int{0, 1000, 1 << 20} {
			b := newTreeBench(t, sftptest.Script{Extensions: append(sftptest.OpenSSHExtensions(),
				test.offer...)}, sftptest.LinkConfig{})
			data := random(size)
			options := func(j *copyJob) { j.Options.Verify, j.Options.Hash = true, test.hash }
			r, err := b.job(upload, b.local("source", data), "/target", options)
			want := transfer.VerifiedByHash
			if test.reads {
				want = transfer.VerifiedByReading
			}
			if err != nil || r.Verified != want ||
				test.hash != "" && !r.Hash.Equal(hashOf(test.hash, data)) {
				t.Errorf("%s: %+v, %v", what, r, err)
			}
			if reads := b.server.Requests(wire.TypeRead); (len(reads) > 0) != test.reads {
				t.Errorf("%s: %d reads", what, len(reads))
			}
		}
	}
}

// The local file is read only once: a file that can be read just once is verified too.
func TestVerifyReadsSourceOnce(t *testing.T) {
	for _, script := range []sftptest.Script{{},
		{Extensions: append(sftptest.OpenSSHExtensions(),
			wire.ExtensionPair{Name: wire.ExtCheckFileName, Data: "1"})}} {
		b := newBench(t, script, sftptest.LinkConfig{})
		data := random(3 << 20)
		source := b.local("source", data)
		_, err := b.job(upload, source, "/target", func(j *copyJob) {
			j.Options.Verify = true
			events := j.Options.Events
			j.Options.Events = func(e transfer.Event) {
				events(e)
				if e.Kind == transfer.Started { // it is open, and nobody can open it again
					os.Remove(source)
				}
			}
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// When a tree is resumed, files that differ by the host's hash are copied again.
func TestResumeVerifiesWhatIsThere(t *testing.T) {
	b := newTreeBench(t, sftptest.Script{Extensions: append(sftptest.OpenSSHExtensions(),
		wire.ExtensionPair{Name: wire.ExtCheckFileName, Data: "1"})}, sftptest.LinkConfig{})
	source := b.sample("source")
	options := func(tree *treeJob) { tree.Options.Resume, tree.Options.Verify = true, true }
	if _, err := b.tree(upload, source, "/copy", options); err != nil {
		t.Fatal(err)
	}
	b.spoil("/copy/deep/packet")
	b.server.Files.SetModTime("/copy/deep/packet", oldTime)
	s, err := b.tree(upload, source+"/.", "/copy", options)
	if err != nil || s.Files != 1 || s.Kept != 8 ||
		!bytes.Equal(b.remote("/copy/deep/packet"), random(261120)) {
		t.Errorf("%+v, %v", s, err)
	}
}

// An uploaded file that something else appends to differs.
func TestVerifyFindsWhatIsLonger(t *testing.T) {
	for _, offer := range [][]wire.ExtensionPair{nil, {{Name: wire.ExtCheckFileName, Data: "1"}}} {
		for _, size := range []int{1000, 3 << 20} {
			b := newBench(t, sftptest.Script{Extensions: append(sftptest.OpenSSHExtensions(),
				offer...)}, sftptest.LinkConfig{})
			b.server.AddFaults(sftptest.Fault{On: wire.TypeClose,
				Do: sftptest.Call("append", func(r sftptest.Request) {
					b.server.Files.WriteFile(r.Path, append(b.remote(r.Path), 'x'))
				})})
			_, err := b.job(upload, b.local("source", random(size)), "/target",
				func(j *copyJob) { j.Options.Verify = true })
			if !errors.Is(err, transfer.ErrVerify) {
				t.Errorf("%d bytes: %v", size, err)
			}
		}
	}
}
