package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/checksum"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// ourHost is package server over a temporary directory.
func ourHost(t *testing.T) (host pool.Host, dir string) {
	t.Helper()
	return hostOf(t, func(files *osfs.FS) server.FS { return files }, nil)
}

// hostOf is package server over a file system derived from a directory, without the denied
// requests.
func hostOf(t *testing.T, over func(*osfs.FS) server.FS,
	denied []string) (host pool.Host, dir string) {
	t.Helper()
	dir = t.TempDir()
	return hostOver(t, dir, over, denied), dir
}

// hostIn is package server over an existing directory.
func hostIn(t *testing.T, dir string) pool.Host {
	t.Helper()
	return hostOver(t, dir, func(files *osfs.FS) server.FS { return files }, nil)
}

func hostOver(t *testing.T, dir string, over func(*osfs.FS) server.FS,
	denied []string) pool.Host {
	t.Helper()
	files, err := osfs.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { files.Close() })
	stream, _ := serve(t, over(files), &server.Options{Policy: server.Policy{Denied: denied}})
	return connect(t, stream, ours)
}

// Our server hashes by any algorithm, and says so; so nothing is read back.
func TestVerifyWithOurServer(t *testing.T) {
	t.Parallel()
	host, _ := ourHost(t)
	if known := host.Client.CheckFileAlgorithms(); !slices.Contains(known, "sha256") ||
		!slices.Contains(known, usftp.AlgorithmBLAKE3) {
		t.Errorf("it hashes by %q", known)
	}
	dir := t.TempDir()
	const large = 70 << 20 // more than one piece
	for _, size := range []int{0, 1000, 3 << 20, large} {
		data := random(size)
		source, back := filepath.Join(dir, "source"), filepath.Join(dir, "back")
		if err := os.WriteFile(source, data, 0o644); err != nil {
			t.Fatal(err)
		}
		for _, a := range []checksum.Algorithm{"", checksum.SHA256, checksum.BLAKE3} {
			if size == large && a == checksum.SHA256 {
				continue
			}
			options := transfer.Options{Verify: true, Hash: a}
			up, err := uploadFile(t.Context(), host, source, "/target", options)
			if err != nil || up.Verified != transfer.VerifiedByHash ||
				a != "" && !up.Hash.Equal(hashOf(a, data)) {
				t.Errorf("%d bytes, %q, up: %+v, %v", size, a, up, err)
			}
			down, err := downloadFile(t.Context(), host, "/target", back, options)
			if err != nil || down.Verified != transfer.VerifiedByHash ||
				a != "" && !down.Hash.Equal(hashOf(a, data)) {
				t.Errorf("%d bytes, %q, down: %+v, %v", size, a, down, err)
			}
		}
	}
}

// flipper is a server whose disk flips a bit of what is written at an offset, or once of what is
// read there.
type flipper struct {
	*osfs.FS
	written int64 // below 0: none
	read    *atomic.Int64
}

// osfsFile is the type of file that osfs opens.
type osfsFile interface {
	server.File
	server.FileStater
	server.FileSetstater
	server.FileSyncer
	io.ReaderAt
	io.WriterAt
}

type flippedFile struct {
	osfsFile
	flipper
}

func (f flipper) Open(ctx context.Context, name string, flags uint32,
	attrs wire.Attrs) (server.File, error) {
	file, err := f.FS.Open(ctx, name, flags, attrs)
	if err != nil {
		return nil, err
	}
	return flippedFile{file.(osfsFile), f}, nil
}

func flip(p []byte, off, at int64) bool {
	there := at >= off && at < off+int64(len(p))
	if there {
		p[at-off] ^= 1
	}
	return there
}

func (f flippedFile) WriteAt(p []byte, off int64) (int, error) {
	p = bytes.Clone(p)
	flip(p, off, f.written)
	return f.osfsFile.WriteAt(p, off)
}

func (f flippedFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.osfsFile.ReadAt(p, off)
	if flip(p[:n], off, f.read.Load()) {
		f.read.Store(-1)
	}
	return n, err
}

// A single flipped bit is detected: in an upload when stored, in a download when sent the first
// time; by hash and by reading back, alone and in a tree, in small files and large ones. A damaged
// file never gets its name.
func TestVerifyFindsOneBit(t *testing.T) {
	t.Parallel()
	for _, denied := range [][]string{nil, {"check-file-handle", "check-file-name"}} {
		for _, size := range []int{100, 3 << 20} {
			for _, at := range []int64{0, int64(size) / 2, int64(size) - 1} {
				what := fmt.Sprintf("%d bytes, at %d, without %q", size, at, denied)
				read := new(atomic.Int64)
				read.Store(-1)
				host, far := hostOf(t, func(files *osfs.FS) server.FS {
					return flipper{files, at,
						read}
				}, denied)
				dir := t.TempDir()
				source := filepath.Join(dir, "tree", "file")
				os.Mkdir(filepath.Dir(source), 0o755)
				os.WriteFile(source, random(size), 0o644)
				options := transfer.Options{Verify: true}
				if _, err := uploadFile(t.Context(), host, source, "/target",
					options); !errors.Is(err, transfer.ErrVerify) {
					t.Errorf("%s: %v", what, err)
				}
				if _, err := uploadTree(t.Context(), host, filepath.Dir(source), "/tree",
					options); !errors.Is(err, transfer.ErrVerify) {
					t.Errorf("%s, a tree: %v", what, err)
				}
				nothingIn(t, what, far, "tree")
				nothingIn(t, what, filepath.Join(far, "tree"))
				os.WriteFile(filepath.Join(far, "tree", "file"), random(size), 0o644)
				back := filepath.Join(dir, "back")
				os.Mkdir(back, 0o755)
				read.Store(at)
				if _, err := downloadFile(t.Context(), host, "/tree/file", back,
					options); !errors.Is(err, transfer.ErrVerify) {
					t.Errorf("%s, down: %v", what, err)
				}
				read.Store(at)
				if _, err := downloadTree(t.Context(), host, "/tree/.", back,
					options); !errors.Is(err, transfer.ErrVerify) {
					t.Errorf("%s, a tree down: %v", what, err)
				}
				nothingIn(t, what, back)
				if _, err := downloadTree(t.Context(), host, "/tree/.", back,
					options); err != nil {
					t.Errorf("%s, as it is: %v", what, err)
				}
			}
		}
	}
}

// nothingIn makes sure that a directory contains only what is expected.
func nothingIn(t *testing.T, what, dir string, but ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Error(err)
	}
	for _, e := range entries {
		if !slices.Contains(but, e.Name()) {
			t.Errorf("%s: there is %q", what, e.Name())
		}
	}
}

// One file of a tree is verified while others are copied.
func TestVerifyOverlaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const files = 48 // of which 16 are in progress at once
		link := sftptest.LinkConfig{ToServer: 50 * time.Millisecond,
			ToClient: 50 * time.Millisecond, RateBytesPerSec: 20 << 20}
		b := newTreeBench(t, sftptest.Script{}, link)
		root := filepath.Join(b.dir, "tree")
		os.Mkdir(root, 0o755)
		for i := range files {
			if err := os.WriteFile(filepath.Join(root, fmt.Sprint(i)), random(1<<20),
				0o644); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := b.tree(upload, root, "/tree",
			func(tree *treeJob) { tree.Options.Verify = true }); err != nil {
			t.Fatal(err)
		}
		reads, writes := b.server.Requests(wire.TypeRead), b.server.Requests(wire.TypeWrite)
		if len(reads) == 0 || len(writes) == 0 {
			t.Fatalf("%d reads, %d writes", len(reads), len(writes))
		}
		early := 0
		for _, r := range reads {
			if r.At.Before(writes[len(writes)-1].At) {
				early++
			}
		}
		if early < len(reads)/2 {
			t.Errorf("%d of %d READs came before the last WRITE", early, len(reads))
		}
	})
}
