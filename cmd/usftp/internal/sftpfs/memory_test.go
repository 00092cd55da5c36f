//go:build linux || darwin

package sftpfs

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/usftp/usftp/wire"
)

// A program walks a tree that is far larger than what fits in memory as lists. What stays is what
// the kernel knows: a small node for each name. Lists are dropped when they expire.
func TestMemoryOfWalk(t *testing.T) {
	const dirs, perDir = 40, 500
	const mostPerName = 600 // bytes; 450 when this was written
	var entries []wire.Name
	for i := range perDir {
		name := fmt.Sprintf("%04d-%s", i, strings.Repeat("x", 11))
		if i < dirs {
			entries = append(entries, listedDir(name))
		} else {
			entries = append(entries, listedFile(name))
		}
	}
	synctest.Test(t, func(t *testing.T) {
		const cache = 10 * time.Second
		f := mountScripted(t, cache, listsNames(entries...)).FS
		for i := range dirs {
			if err := f.link.client.Mkdir("/" + entries[i].Filename); err != nil {
				t.Fatal(err)
			}
		}
		before := heap()
		read := func(id uint64) []uint64 {
			_, nodes, status := readDir(t, f, id, true)
			if status != fuse.OK || len(nodes) < perDir {
				t.Fatalf("%d nodes, %v", len(nodes), status)
			}
			return nodes
		}
		for _, id := range read(fuse.FUSE_ROOT_ID)[2 : 2+dirs] { // after "." and ".."
			read(id)
		}
		time.Sleep(5 * cache) // all timers have run
		synctest.Wait()
		f.tree.mu.RLock()
		names := len(f.tree.byID)
		for _, n := range f.tree.byID {
			if n.names != nil && n.names.listed != nil {
				t.Errorf("node %d keeps a list of %d names", n.id, len(n.names.listed))
			}
		}
		f.tree.mu.RUnlock()
		if names < dirs*perDir {
			t.Fatalf("the kernel knows %d names", names)
		}
		grown := heap() - before
		t.Logf("%d names, %d bytes each", names, grown/int64(names))
		if grown > int64(names)*mostPerName {
			t.Errorf("%d names take %d bytes each, more than %d", names, grown/int64(names),
				mostPerName)
		}
		runtime.KeepAlive(f)
	})
}

// heap returns how many bytes are in use.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what finalizers and pools held
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// A list is dropped when it expires, and a directory whose list was renewed meanwhile keeps that.
func TestListsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const cache = 10 * time.Second
		f := mountScripted(t, cache, listsNames(listedFile("a"), listedFile("b"))).FS
		read := func() {
			if names, _, status := readRoot(t, f, false); status != fuse.OK || len(names) < 2 {
				t.Fatalf("%q, %v", names, status)
			}
		}
		listed := func(want bool) {
			t.Helper()
			synctest.Wait()
			root := f.tree.root
			root.mu.Lock()
			defer root.mu.Unlock()
			if got := root.knownNames().listed != nil; got != want {
				t.Errorf("has a list: %v, want %v", got, want)
			}
		}
		read()
		time.Sleep(cache - time.Second)
		listed(true)
		f.empty(f.tree.root) // as fresh as if it had been made now
		time.Sleep(cache - time.Second)
		listed(true) // the timer of the first has run
		time.Sleep(2 * time.Second)
		listed(false)
		read()
		listed(true)
		time.Sleep(2 * cache)
		listed(false)
	})
}
