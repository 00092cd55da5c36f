package bench

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pkg/sftp"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/bench/library"
	"github.com/usftp/usftp/bench/pipes"
)

const (
	taskDelay = 50 * time.Millisecond

	manyNames   = 10_000
	manyEntries = 100_000

	// The tree has 20 groups of 100 directories of 10 files. pkg/sftp walks one of them, and its
	// time is multiplied: all of it would take it minutes.
	treeGroups, treeDirs, treeFiles = 20, 100, 10
)

// BenchmarkTask does what programs do beside moving one file. Its figures are those of whole tasks:
// seconds (s/task), allocations an item (allocs/item), and of an idle client heap (heap-B) and
// goroutines.
func BenchmarkTask(b *testing.B) {
	dir := memoryDir(b)
	entries := filepath.Join(dir, "entries")
	makeFiles(b, entries, manyEntries)
	b.Run("task=stat-10000/library=pkgsftp-64", func(b *testing.B) {
		client := pkgOverPipe(b, taskDelay)
		task(b, manyNames, 1, func() error { return pkgStats(client, entries) })
	})
	b.Run("task=stat-10000/library=usftp", func(b *testing.B) {
		client := oursOverPipe(b, taskDelay)
		task(b, manyNames, 1, func() error { return ourStats(client, entries) })
	})
	b.Run("task=readdir-100000/library=pkgsftp", func(b *testing.B) {
		client := pkgOverPipe(b, taskDelay)
		task(b, manyEntries, 1, func() error {
			all, err := client.ReadDir(entries)
			return counted(len(all), manyEntries, err)
		})
	})
	b.Run("task=readdir-100000/library=usftp", func(b *testing.B) {
		client := oursOverPipe(b, taskDelay)
		task(b, manyEntries, 1, func() error {
			all, err := client.ReadDir(entries)
			return counted(len(all), manyEntries, err)
		})
	})

	tree := filepath.Join(dir, "tree")
	for group := range treeGroups {
		for d := range treeDirs {
			makeFiles(b, filepath.Join(tree, fmt.Sprint(group), fmt.Sprint(d)), treeFiles)
		}
	}
	const inGroup = 1 + treeDirs*(1+treeFiles)
	b.Run("task=walk-20000/library=pkgsftp", func(b *testing.B) {
		client := pkgOverPipe(b, taskDelay)
		task(b, treeGroups*inGroup, treeGroups, func() error {
			n := 0
			walker := client.Walk(filepath.Join(tree, "0"))
			for walker.Step() {
				if walker.Err() != nil {
					return walker.Err()
				}
				n++
			}
			return counted(n, inGroup, nil)
		})
	})
	b.Run("task=walk-20000/library=usftp", func(b *testing.B) {
		client := oursOverPipe(b, taskDelay)
		task(b, treeGroups*inGroup, 1, func() error {
			n := 0
			err := client.WalkDir(tree, func(_ string, _ fs.DirEntry, err error) error {
				n++
				return err
			})
			return counted(n, 1+treeGroups*inGroup, err)
		})
	})

	benchmarkPieces(b)
	for _, lib := range library.All() {
		if lib.Name != library.BestName {
			b.Run("task=idle/library="+lib.Name, func(b *testing.B) { benchmarkIdle(b, lib) })
		}
	}
}

// benchmarkPieces moves 10 MiB in small and in large pieces, by sequential Reads and by Writes with
// write-behind.
func benchmarkPieces(b *testing.B) {
	path, content := randomFile(b, transferSize)
	target := filepath.Join(memoryDir(b), "target")
	for _, op := range gridOps {
		if op.name != "Read" && op.name != "Write" {
			continue
		}
		for _, size := range []int{1 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("task=%s-%dKiB/library=usftp", op.name, size>>10),
				func(b *testing.B) {
					client := oursOverPipe(b, 0, usftp.WithWriteBehind(16<<20))
					buffer := make([]byte, size)
					move := func() error {
						open, name := client.Open, path
						if !op.down {
							open, name = client.Create, target
						}
						f, err := open(name)
						if err != nil {
							return err
						}
						n, err := op.move(f, content, buffer)
						return errors.Join(counted(int(n), transferSize, err), f.Close())
					}
					const times = 20 // one takes a few milliseconds
					task(b, transferSize/size, 1.0/times, func() error {
						for range times {
							if err := move(); err != nil {
								return err
							}
						}
						return nil
					})
					if !op.down {
						checkFile(b, target, content)
					}
				})
		}
	}
}

// benchmarkIdle looks at a client ten seconds after its last transfer.
func benchmarkIdle(b *testing.B, lib library.Library) {
	path, content := randomFile(b, transferSize)
	state := func() (heap float64, goroutines int) {
		runtime.GC()
		runtime.GC() // pooled memory that the first has freed
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return float64(stats.HeapAlloc), runtime.NumGoroutine()
	}
	for b.Loop() {
		server := startServer(b, pipes.LargePipe) // it is for one client
		heap, goroutines := state()
		client, err := lib.OverPipe(server.R, server.W)
		if err != nil {
			b.Fatal(err)
		}
		err = errors.Join(download(client, path, transferSize),
			upload(client, path+".up", &pieces{content, len(content)}))
		if err != nil {
			b.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		heapNow, goroutinesNow := state()
		b.ReportMetric(heapNow-heap, "heap-B")
		b.ReportMetric(float64(goroutinesNow-goroutines), "goroutines")
		client.Close()
	}
}

// task measures what is done once in an operation: items of them, and scale times as long as what
// run does.
func task(b *testing.B, items int, scale float64, run func() error) {
	b.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for b.Loop() {
		if err := run(); err != nil {
			b.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	seconds := b.Elapsed().Seconds() / float64(b.N) * scale
	b.ReportMetric(seconds, "s/task")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)*scale/float64(b.N)/float64(items),
		"allocs/item")
}

func counted(n, want int, err error) error {
	if err == nil && n != want {
		err = fmt.Errorf("%d of %d came", n, want)
	}
	return err
}

func makeFiles(b *testing.B, dir string, n int) {
	b.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		b.Fatal(err)
	}
	for i := range n {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("file%06d", i)), nil,
			0o600); err != nil {
			b.Fatal(err)
		}
	}
}

// oursOverPipe tells the client what it would know by itself over SSH: that the server is
// OpenSSH's.
func oursOverPipe(b *testing.B, delay time.Duration, options ...usftp.ClientOption) *usftp.Client {
	b.Helper()
	server := startServer(b, pipes.LargePipe)
	options = append(options, usftp.WithServerVersion("SSH-2.0-OpenSSH"))
	client, err := usftp.NewClientPipe(server.R, delayed(server, delay), options...)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { client.Close() })
	return client
}

func pkgOverPipe(b *testing.B, delay time.Duration) *sftp.Client {
	b.Helper()
	server := startServer(b, pipes.LargePipe)
	client, err := sftp.NewClientPipe(server.R, delayed(server, delay))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { client.Close() })
	return client
}

func statName(dir string, i int) string { return filepath.Join(dir, fmt.Sprintf("file%06d", i)) }

func ourStats(client *usftp.Client, dir string) error {
	names := make([]string, manyNames)
	for i := range names {
		names[i] = statName(dir, i)
	}
	n := 0
	for r := range usftp.Batch(slices.Values(names), manyNames, client.Async().Stat) {
		if r.Err != nil {
			return r.Err
		}
		n++
	}
	return counted(n, manyNames, nil)
}

// pkgStats has 64 goroutines, since pkg/sftp has no other way to more than one request at a time.
func pkgStats(client *sftp.Client, dir string) error {
	const crowd = 64
	var all sync.WaitGroup
	failed := make(chan error, crowd)
	for first := range crowd {
		all.Go(func() {
			for i := first; i < manyNames; i += crowd {
				if _, err := client.Stat(statName(dir, i)); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	all.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}
