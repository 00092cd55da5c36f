//go:build !race && (amd64 || arm64)

package transfer_test

import (
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"

	"github.com/usftp/usftp/internal/buffer"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// What each of a thousand small files holds while it waits for a reply: a stack of 4 KiB, which one
// more function with an Event in its frame would double, and on the heap only the contents in
// flight. The heap includes the server's, and the blocks that the client keeps for reuse for a few
// seconds: one for each WRITE that was in flight at the same time, so that of each file at most.
func TestMemoryOfFilesInFlight(t *testing.T) {
	if runtime.GOOS == "windows" {
		testenv.Unavailable(t, "its file functions need more stack")
	}
	const files, size, kept = 1000, 4000, buffer.Small
	// a collection would shrink stacks that have grown
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	for name, test := range map[string]struct {
		direction way
		held      sftptest.Fault
		replies   int // per file
		heap      int64
	}{
		"upload, open":  {upload, sftptest.Fault{On: wire.TypeOpen}, 1, 6000},
		"upload, close": {upload, sftptest.Fault{On: wire.TypeClose}, 1, 7500 + size + kept},
		"upload, rename": {upload, sftptest.Fault{On: wire.TypeExtended,
			Extension: wire.ExtPosixRename}, 1,
			7500 + size + kept},
		"download, open": {download, sftptest.Fault{On: wire.TypeOpen}, 1, 6000},
		"download, read": {download, sftptest.Fault{On: wire.TypeRead}, 2, 8000 + size},
	} {
		t.Run(name, func(t *testing.T) {
			limits := sftptest.OpenSSHLimits()
			limits.MaxOpenHandles = 0
			var gate sftptest.Gate
			test.held.Do = sftptest.Hold(&gate)
			b := newTreeBench(t, sftptest.Script{Limits: &limits,
				Faults: []sftptest.Fault{test.held}}, sftptest.LinkConfig{})
			source, target := filepath.Join(b.dir, "tree"), "/copy"
			if test.direction == download {
				source, target = "/tree", filepath.Join(b.dir, "copy")
				for i := range files {
					b.server.Files.WriteFile(fmt.Sprintf("/tree/file%d", i), make([]byte, size))
				}
			} else {
				sameFiles(t, source, files, make([]byte, size))
			}
			heap := heapInUse()
			stacks := stacksInUse()
			ended := make(chan error, 1)
			go func() {
				_, err := b.tree(test.direction, source, target,
					func(t *treeJob) { t.TreeOptions.MaxFiles = files })
				ended <- err
			}()
			gate.Wait(test.replies * files)
			stacks = stacksInUse() - stacks // before a collection
			heap = heapInUse() - heap
			gate.Open()
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			if each := stacks / files; each > 6000 {
				t.Errorf("%d bytes of stack for each file", each)
			}
			if each := heap / files; each > test.heap {
				t.Errorf("%d bytes of heap for each file, more than %d", each, test.heap)
			}
			t.Logf("%d bytes of stack and %d of heap for each file", stacks/files, heap/files)
		})
	}
}

// stacksInUse returns how many bytes of stack are in use.
func stacksInUse() int64 { return inUse("/memory/classes/heap/stacks:bytes") }

// heapInUse returns how many bytes of heap are alive. It also frees the stacks of goroutines that
// have ended.
func heapInUse() int64 {
	runtime.GC()
	runtime.GC() // pools are emptied by two collections
	return inUse("/memory/classes/heap/objects:bytes")
}

func inUse(name string) int64 {
	sample := []metrics.Sample{{Name: name}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}
