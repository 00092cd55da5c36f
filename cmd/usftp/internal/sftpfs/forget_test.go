//go:build linux || darwin

package sftpfs

import (
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// A toldKernel is asked to forget, and does so unless it is deaf: the real one does not forget what
// is used in some way that we do not see.
type toldKernel struct {
	f     *FS
	deaf  bool
	asked map[string]int // how often, by name
}

func (k *toldKernel) EntryNotify(dir uint64, name string) fuse.Status {
	k.asked[name]++
	if n := k.f.tree.child(k.f.tree.get(dir), name); n != nil && !k.deaf {
		k.f.Forget(n.id, n.lookups)
	}
	return fuse.OK
}

func (k *toldKernel) PruneNotify(nodes []uint64) fuse.Status {
	for _, id := range nodes {
		if n := k.f.tree.get(id); n != nil {
			k.EntryNotify(n.places[0].dir.id, n.places[0].name)
		}
	}
	return fuse.OK
}

func (k *toldKernel) InodeNotify(uint64, int64, int64) fuse.Status { return fuse.OK }

// maxTold is how many nodes there may be before told's kernel is asked to forget some.
const maxTold = 10

// told mounts with a toldKernel.
func told(t *testing.T, prunes bool) *toldKernel {
	k := &toldKernel{f: mountScripted(t, time.Minute, listsNames()).FS, asked: make(map[string]int)}
	k.f.tree.maxNodes, k.f.tree.prunes = maxTold, prunes
	k.f.work.Go(func() { k.f.pruneNodes(k) })
	return k
}

func (k *toldKernel) learn(dir *node, name string, mode uint32) *node {
	return k.f.tree.learn(dir, name, &attrs{mode: mode})
}

// count returns how many nodes there are once the kernel has been asked.
func (k *toldKernel) count() int {
	synctest.Wait()
	k.f.tree.mu.RLock()
	defer k.f.tree.mu.RUnlock()
	return len(k.f.tree.byID)
}

const aDir, aFile = syscall.S_IFDIR | 0o755, syscall.S_IFREG | 0o644

// If there are too many nodes the kernel is asked to forget the oldest files, but neither what is
// open nor, unless it knows which are in use, directories.
func TestNodesAreBounded(t *testing.T) {
	const names = 40
	for _, prunes := range []bool{false, true} {
		t.Run(fmt.Sprintf("kernel prunes %t", prunes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := told(t, prunes)
				k.deaf = true
				root := k.f.tree.root
				k.learn(root, "dir", aDir)
				open := k.learn(root, "open", aFile)
				k.f.tree.hold(open)
				for i := range names {
					k.learn(root, fmt.Sprint("file", i), aFile)
				}
				// Each was asked for once, though none is gone: asking again would not help.
				if got, want := k.count(), names+3; got != want || len(k.asked) != want-maxTold {
					t.Errorf("%d nodes, %d names were asked for: %v", got, len(k.asked), k.asked)
				}
				for name, times := range k.asked {
					if times != 1 || name == "open" || name == "dir" && !prunes {
						t.Errorf("%s was asked for %d times", name, times)
					}
				}
				if k.asked["file0"] != 1 || k.asked[fmt.Sprint("file", names-1)] != 0 {
					t.Errorf("not the oldest: %v", k.asked)
				}
				k.deaf = false
				for i := range names { // the kernel asks for all of them again
					k.learn(root, fmt.Sprint("file", i), aFile)
					synctest.Wait()
				}
				if got := k.count(); got > maxTold+1 { // dir was asked for before
					t.Errorf("%d nodes, want %d", got, maxTold)
				}
				k.f.tree.release(open)
				k.learn(root, "open", aFile)
				for i := range 100 * names { // names that come and go leave nothing behind
					n := k.learn(root, fmt.Sprint("new", i), aFile)
					k.f.Forget(n.id, 1)
				}
				k.f.tree.mu.RLock()
				defer k.f.tree.mu.RUnlock()
				if len(k.f.tree.queue) > 4*maxTold {
					t.Errorf("%d names are queued", len(k.f.tree.queue))
				}
			})
		})
	}
}

// Directories that nothing uses are forgotten too, after what is in them.
func TestDirectoriesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := told(t, true)
		root := k.f.tree.root
		for i := range 40 {
			dir := k.learn(root, fmt.Sprint("dir", i), aDir)
			for j := range 3 {
				k.learn(k.learn(dir, fmt.Sprint("dir", j), aDir), "file", aFile)
				synctest.Wait()
			}
		}
		if got := k.count(); got > maxTold {
			t.Errorf("%d nodes, want %d", got, maxTold)
		}
	})
}

// If the kernel cannot forget directories, and there are many, it is not asked to forget each file
// that it has just asked for.
func TestManyDirectories(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := told(t, false)
		root := k.f.tree.root
		for i := range 2 * maxTold {
			k.learn(root, fmt.Sprint("dir", i), aDir)
		}
		for range 10 {
			for i := range maxTold / 2 {
				k.learn(root, fmt.Sprint("file", i), aFile)
				synctest.Wait()
			}
		}
		if len(k.asked) != 0 {
			t.Errorf("asked for %v", k.asked)
		}
	})
}

// A kernel that forgets by names is asked only while no call is under way: if the process were
// killed while it waits for one, neither would ever end. By then a name may be another file's.
func TestNamesAreForgottenBetweenCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := told(t, false)
		root := k.f.tree.root
		_, stop := k.f.request(nil, &fuse.InHeader{})
		for i := range 2 * maxTold {
			k.learn(root, fmt.Sprint("file", i), aFile)
		}
		time.Sleep(time.Minute / 2)
		if synctest.Wait(); len(k.asked) != 0 {
			t.Errorf("asked for %v during a call", k.asked)
		}
		k.f.tree.unlinked(root, "file0")
		k.learn(root, "file0", aDir)
		stop()
		time.Sleep(2 * callPoll)
		if synctest.Wait(); len(k.asked) == 0 || k.asked["file0"] != 0 {
			t.Errorf("asked for %v after the call", k.asked)
		}
	})
}

// A node that the kernel kept, and that was in use since, counts again among those that may go.
func TestNodesThatStayAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := told(t, true)
		k.deaf = true
		root := k.f.tree.root
		var nodes []*node
		for round := range 5 {
			for i := range maxTold {
				nodes = append(nodes, k.learn(root, fmt.Sprint("file", round, i), aFile))
			}
			synctest.Wait()
			for _, n := range nodes {
				k.f.tree.hold(n)
				k.f.tree.release(n)
			}
			synctest.Wait()
			leaving := 0
			for _, n := range nodes {
				if n.leaving {
					leaving++
				}
			}
			if k.f.tree.leaving != leaving {
				t.Errorf("%d nodes are to leave, and %d are counted", leaving, k.f.tree.leaving)
			}
		}
		for _, n := range nodes {
			k.f.Forget(n.id, 1)
		}
		if k.f.tree.leaving != 0 {
			t.Errorf("%d nodes that are gone are counted", k.f.tree.leaving)
		}
	})
}

// A directory that becomes empty can be forgotten, whatever took the last name out of it.
func TestEmptiedDirectories(t *testing.T) {
	for name, take := range map[string]func(t *tree, dir *node, n *node){
		"forgotten": func(t *tree, _, n *node) { t.forget(n.id, n.lookups) },
		"unlinked":  func(t *tree, dir, _ *node) { t.unlinked(dir, "file") },
		"renamed": func(t *tree, dir, _ *node) {
			t.renamed(place{dir, "file"}, place{t.root, "file"})
		},
		"hidden": func(t *tree, dir, n *node) {
			t.hide(n, place{dir, "file"}, place{t.root, "hidden"})
		},
		"one of two names": func(t *tree, dir, n *node) {
			t.addPlace(n, t.root, "file")
			t.forget(n.id, n.lookups)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := told(t, true)
				k.deaf = true
				tree := k.f.tree
				dir := k.learn(tree.root, "dir", aDir)
				n := k.learn(dir, "file", aFile)
				for i := range 2 * maxTold { // the directory is not empty when its turn comes
					k.learn(tree.root, fmt.Sprint("file", i), aFile)
				}
				synctest.Wait()
				if k.asked["dir"] != 0 {
					t.Fatal("a directory with a name in it was asked for")
				}
				take(tree, dir, n)
				for i := range 2 * maxTold {
					k.learn(tree.root, fmt.Sprint("more", i), aFile)
				}
				if synctest.Wait(); k.asked["dir"] != 1 {
					t.Errorf("it was asked for %d times", k.asked["dir"])
				}
				tree.forget(dir.id, 1)
				if tree.get(dir.id) != nil {
					t.Error("it is still there")
				}
			})
		})
	}
}
