package bench

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/zeebo/blake3"
	"golang.org/x/sys/unix"

	"github.com/usftp/usftp/bench/result"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/machine"
)

// copyDirs are where local copies are measured: tmpfs, the disk, and what USFTP_BENCH_DIRS lists
// besides, with colons in between: a file system that can share blocks, say.
func copyDirs() []string {
	return append([]string{"/dev/shm", "/var/tmp"},
		filepath.SplitList(os.Getenv("USFTP_BENCH_DIRS"))...)
}

// fileSystem names the kind of file system that a directory is on.
func fileSystem(dir string) string {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return "none"
	}
	switch st.Type {
	case unix.TMPFS_MAGIC:
		return "tmpfs"
	case unix.EXT4_SUPER_MAGIC:
		return "ext4"
	case unix.BTRFS_SUPER_MAGIC:
		return "btrfs"
	case unix.XFS_SUPER_MAGIC:
		return "xfs"
	case 0x2fc12fc1:
		return "zfs"
	}
	return fmt.Sprintf("%x", st.Type)
}

var copySizes = []struct {
	name string
	size int
}{{"10KB", 10e3}, {"10MB", 10e6}, {"100MB", 100e6}}

var copyHashes = []struct {
	name string
	make func() hash.Hash
}{{"none", nil}, {"sha256", sha256.New}, {"blake3", func() hash.Hash { return blake3.New() }}}

// copyPlans are the ways to copy alone, and with each hash. Reading and writing is done by package
// filecopy, buffer by buffer: io.Copy would have the kernel copy.
var (
	copyAlone = []localfs.Plan{{Move: localfs.Kernel}, {Move: localfs.Clone},
		{Move: localfs.Read}}
	copyHashed = []localfs.Plan{
		{Move: localfs.Kernel, Hash: localfs.Reread},
		{Move: localfs.Clone, Hash: localfs.Reread},
		{Move: localfs.Read, Hash: localfs.Reread}, {Move: localfs.Read,
			Hash: localfs.Tee}, {Move: localfs.Read, Hash: localfs.TeeAside},
	}
)

// BenchmarkCopy copies a file of each size in each directory in each way, with and without a hash.
// One operation is a new file opened, filled and closed; the file before it is removed outside of
// the time. Nothing is forced to the disk.
func BenchmarkCopy(b *testing.B) {
	for _, dir := range copyDirs() {
		for _, size := range copySizes {
			b.Run("on="+fileSystem(dir)+"/size="+size.name, func(b *testing.B) {
				c := newCopyBench(b, dir, size.size)
				for _, h := range copyHashes {
					plans := copyHashed
					if h.make == nil {
						plans = copyAlone
					}
					for _, plan := range plans {
						if plan.Move == localfs.Clone && !c.clones {
							continue
						}
						name := "hash=" + h.name + "/move=" + string(plan.Move)
						if h.make != nil {
							name += "/by=" + string(plan.Hash)
						}
						b.Run(name, func(b *testing.B) { c.run(b, plan, h.make) })
					}
				}
			})
		}
	}
}

// copyBench is one source, and where its copies go.
type copyBench struct {
	src     *os.File
	content []byte
	target  string
	clones  bool // the file system can share blocks
}

func newCopyBench(b *testing.B, dir string, size int) *copyBench {
	dir, err := os.MkdirTemp(dir, "usftp-bench-")
	if err != nil {
		b.Skip(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	c := &copyBench{content: make([]byte, size), target: filepath.Join(dir, "target")}
	rand.NewChaCha8([32]byte{1}).Read(c.content)
	source := filepath.Join(dir, "source")
	if err := os.WriteFile(source, c.content, 0o600); err != nil {
		b.Fatal(err)
	}
	if c.src, err = os.OpenFile(source, os.O_RDWR, 0); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.src.Close() })
	if err := c.src.Sync(); err != nil { // else the first copies would share the disk with it
		b.Fatal(err)
	}
	probe, err := os.Create(c.target)
	if err != nil {
		b.Fatal(err)
	}
	c.clones = unix.IoctlFileClone(int(probe.Fd()), int(c.src.Fd())) == nil
	probe.Close()
	return c
}

const (
	copyFor   = 150 * time.Millisecond // of one benchmark in one round
	copyLeast = 3                      // operations
)

// run measures by itself, because the file before must be out of the way each time: the median of
// its operations, and the processor time of all of them.
func (c *copyBench) run(b *testing.B, plan localfs.Plan, newHash func() hash.Hash) {
	want := []byte(nil)
	if newHash != nil {
		h := newHash()
		h.Write(c.content)
		want = h.Sum(nil)
	}
	var times []float64
	var processor, elapsed time.Duration
	for elapsed < copyFor || len(times) < copyLeast {
		os.Remove(c.target)
		var h hash.Hash
		options := localfs.Options{Plan: plan}
		if newHash != nil {
			h = newHash()
			options.Hash = h
		}
		before, began := machine.ProcessorTime(), time.Now()
		dst, err := os.OpenFile(c.target, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			b.Fatal(err)
		}
		n, err := localfs.Copy(context.Background(), dst, c.src, options)
		if closeErr := dst.Close(); err == nil {
			err = closeErr
		}
		took := time.Since(began)
		processor += machine.ProcessorTime() - before
		if err != nil || n != int64(len(c.content)) || h != nil && !bytes.Equal(h.Sum(nil), want) {
			b.Fatalf("copied %d bytes: %v", n, err)
		}
		elapsed += took
		times = append(times, float64(took))
	}
	median := result.Median(times)
	checkFile(b, c.target, c.content)
	b.ReportMetric(median, "ns/op")
	b.ReportMetric(float64(processor)/float64(len(times)), "cpu-ns/op")
	b.ReportMetric(float64(len(c.content))/median*1e3, "MB/s")
}
