//go:build linux || darwin

package sftpfs

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// A node is a file or directory that the kernel knows. It has one name, several if hard links were
// made here (the protocol does not report others), or none after it was removed. The kernel may
// know hundreds of thousands of nodes, so rarely used fields are behind pointers.
type node struct {
	id  uint64 // the kernel knows it by this
	ino uint64 // the inode number that programs see

	// The tree's lock guards these.
	places   []place
	children map[string]*node // of a directory: known to the kernel; nil if there are none
	lookups  uint64           // how many times the kernel was given the id
	opens    int32            // open files, which keep a node after the kernel forgot it
	removed  bool             // only the hidden name is left
	queued   bool             // in the tree's queue
	leaving  bool             // the kernel was asked to forget it
	moves    uint8            // how often it was renamed, modulo 256

	mu      sync.Mutex
	attrs   attrs     // as the server last sent them
	fetched time.Time // when attrs were requested; zero if they are not known
	changed time.Time // when the file was last changed here
	touched time.Time // of a directory: when a name in it was last changed here
	ctime   uint32    // status change, by the host's clock; the protocol has no such time
	version version   // of the contents that the kernel may have cached
	since   time.Time // when that version was first seen
	open    version   // the version last seen of the open file
	read    *reading  // the version in the kernel's page cache; nil if never opened
	view    *view     // what the kernel knows of it; nil if never opened
	names   *names    // of a directory: see knownNames
	file    *file     // set while the file is open or has data to write
}

// A place is a name in a directory.
type place struct {
	dir  *node
	name string
}

// tree holds all nodes. Its lock is never held during a request to the host.
type tree struct {
	mu   sync.RWMutex
	root *node
	host string // the path of the root on the host
	byID map[uint64]*node
	inos map[uint64]int // inode numbers in use
	last uint64

	moving   map[*node]int // nodes that the host is renaming
	changing map[*node]int // nodes that the host is changing by their paths, or names in them
	moved    chan struct{} // closed and replaced when one of those changes has ended

	maxNodes int           // see pruneNodes
	prunes   bool          // the kernel can be asked to forget unused nodes
	queue    []uint64      // nodes that the kernel knows, in the order in which it was given them
	leaving  int           // nodes that the kernel was asked to forget
	crowded  chan struct{} // receives a value when there are too many nodes
}

func newTree(host string) *tree {
	t := &tree{host: host, byID: make(map[uint64]*node), inos: make(map[uint64]int), last: 1,
		moving: make(map[*node]int), changing: make(map[*node]int), moved: make(chan struct{}),
		maxNodes: maxNodes, crowded: make(chan struct{}, 1)}
	t.root = &node{id: fuse.FUSE_ROOT_ID, ino: 1, lookups: 1}
	t.byID[t.root.id] = t.root
	return t
}

// get returns the node that the kernel knows by an id, or nil.
func (t *tree) get(id uint64) *node {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.byID[id]
}

// path returns a node's path on the host, and false if the node no longer has a name.
func (t *tree) path(n *node) (string, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.pathLocked(n)
}

func (t *tree) pathLocked(n *node) (string, bool) {
	var names []string
	for n != t.root {
		if len(n.places) == 0 {
			return "", false
		}
		p := n.places[len(n.places)-1]
		names = append(names, p.name)
		n = p.dir
	}
	full := t.host
	for _, name := range slices.Backward(names) {
		full = join(full, name)
	}
	return full, true
}

// parent returns the directory of a node's newest name, or nil if it has no name. The caller holds
// the tree's lock.
func (n *node) parent() *node {
	if len(n.places) == 0 {
		return nil
	}
	return n.places[len(n.places)-1].dir
}

// pathNow returns a node's path, and how often it and the directories above it were renamed.
func (t *tree) pathNow(n *node) (path string, moves int, ok bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	path, ok = t.pathLocked(n)
	for ; ok && n != t.root; n = n.parent() {
		moves += int(n.moves)
	}
	return path, moves, ok
}

// move records that the host is about to rename a place's node. It waits until no change of that
// node or below it is under way: by then its path could belong to another file. The caller must
// call moved when the tree knows the result.
func (t *tree) move(ctx context.Context, from place) (moved func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := from.dir.children[from.name]
	if n == nil {
		return func() {}, nil // no program is using it
	}
	t.moving[n]++ // changes that are not under way yet wait for the new path
	moved = func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		n.moves++
		t.end(t.moving, n)
	}
	for t.changesAt(n) && err == nil {
		err = t.awaitChange(ctx)
	}
	if err != nil {
		t.end(t.moving, n)
		return nil, err
	}
	return moved, nil
}

// moveOne works like move before the host removes one of several names of a file. What is written
// to the file meanwhile must go to one of the others.
func (t *tree) moveOne(ctx context.Context, from place) (moved func(), err error) {
	if n := t.child(from.dir, from.name); n == nil || t.links(n) < 2 {
		return func() {}, nil
	}
	return t.move(ctx, from)
}

// end counts down a node's changes that are under way, and wakes all callers waiting for that. The
// caller holds the lock.
func (t *tree) end(what map[*node]int, n *node) {
	if what[n]--; what[n] == 0 {
		delete(what, n)
	}
	close(t.moved)
	t.moved = make(chan struct{})
}

// awaitChange waits until a change has ended. The caller holds the lock; waiting releases it.
func (t *tree) awaitChange(ctx context.Context) error {
	moved := t.moved
	t.mu.Unlock()
	defer t.mu.Lock()
	select {
	case <-moved:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// changesAt reports whether the host is changing a node or something below it. The caller holds the
// lock.
func (t *tree) changesAt(n *node) bool {
	for at := range t.changing {
		for ; at != nil; at = at.parent() {
			if at == n {
				return true
			}
		}
	}
	return false
}

// moves reports whether the host may be renaming a node or a directory above it. The caller holds
// the lock.
func (t *tree) moves(n *node) bool {
	for ; n != nil; n = n.parent() {
		if t.moving[n] > 0 {
			return true
		}
	}
	return false
}

// change waits while the host may be renaming one of two nodes, or a directory above them, and
// returns their paths. They stay the same until the caller calls done.
func (t *tree) change(ctx context.Context, a, b *node) (pathA, pathB string, done func(),
	err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.moves(a) || t.moves(b) {
		if err := t.awaitChange(ctx); err != nil {
			return "", "", nil, err
		}
	}
	pathA, okA := t.pathLocked(a)
	pathB, okB := t.pathLocked(b)
	if !okA || !okB {
		return "", "", nil, syscall.ESTALE
	}
	t.changing[a]++
	t.changing[b]++
	return pathA, pathB, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.end(t.changing, a)
		t.end(t.changing, b)
	}, nil
}

// awaitMoves waits while the host may be renaming a node or a directory above it.
func (t *tree) awaitMoves(ctx context.Context, n *node) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.moves(n) {
		if err := t.awaitChange(ctx); err != nil {
			return err
		}
	}
	return nil
}

// depth returns the least number of directories between the root and a node: 0 in the root itself.
func (t *tree) depth(n *node) int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	least := -1
	for _, p := range n.places {
		deep := 0
		for dir := p.dir; dir != nil && dir != t.root; dir = dir.parent() {
			deep++
		}
		if least < 0 || deep < least {
			least = deep
		}
	}
	return max(least, 0)
}

// join joins a directory and a name as path.Join does, without cleaning the directory.
func join(dir, name string) string {
	switch {
	case dir == "":
		return name
	case dir[len(dir)-1] == '/':
		return dir + name
	}
	return dir + "/" + name
}

// child returns the node of a name, or nil.
func (t *tree) child(dir *node, name string) *node {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return dir.children[name]
}

// isIn reports whether a node is another one, or below it.
func (t *tree) isIn(n, above *node) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return n.isIn(above)
}

func (n *node) isIn(above *node) bool {
	return n == above || slices.ContainsFunc(n.places,
		func(p place) bool { return p.dir.isIn(above) })
}

// learn returns the node of a name and counts the reference that the kernel gets. It replaces a
// node of another type: the name now belongs to another file.
func (t *tree) learn(dir *node, name string, a *attrs) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := dir.children[name]
	if n != nil && !n.sameType(a) {
		t.removePlace(n, place{dir, name})
		n = nil
	}
	if n == nil {
		n = t.add(dir, name)
	}
	n.lookups++
	t.given(n, a.isDir())
	return n
}

func (n *node) sameType(a *attrs) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.fetched.IsZero() || n.attrs.mode&typeMask == a.mode&typeMask
}

// add makes a node. The caller holds the lock.
func (t *tree) add(dir *node, name string) *node {
	t.last++
	n := &node{id: t.last, ino: t.newIno(dir, name), places: []place{{dir, name}}}
	t.byID[n.id] = n
	dir.setChild(name, n)
	return n
}

// setChild sets the node of a name. The caller holds the tree's lock.
func (n *node) setChild(name string, child *node) {
	if n.children == nil {
		n.children = make(map[string]*node)
	}
	n.children[name] = child
}

// inoOf returns the inode number of a name. It is derived from the path, so that it stays the same
// after the kernel forgets the file, and in the next mount: git compares inode numbers.
func (t *tree) inoOf(dir *node, name string) uint64 {
	full, _ := t.pathLocked(dir)
	sum := sha256.Sum256([]byte(join(full, name)))
	return binary.LittleEndian.Uint64(sum[:])>>1 | 1<<32
}

// newIno returns the inode number of a new node. It avoids numbers in use: a file that replaced
// another must not look the same to programs that still have the old one open.
func (t *tree) newIno(dir *node, name string) uint64 {
	ino := t.inoOf(dir, name)
	for t.inos[ino] > 0 {
		ino++
	}
	t.inos[ino]++
	return ino
}

// entryIno returns the inode number that a listing shows for a name.
func (t *tree) entryIno(dir *node, name string) uint64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if n := dir.children[name]; n != nil {
		return n.ino
	}
	return t.inoOf(dir, name)
}

// forget subtracts references that the kernel has dropped.
func (t *tree) forget(id, lookups uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.byID[id]
	if n == nil || n == t.root {
		return
	}
	n.lookups -= min(lookups, n.lookups)
	t.drop(n)
}

// drop removes an unneeded node, and then unneeded nodes above it. The caller holds the lock.
func (t *tree) drop(n *node) {
	if n == t.root || n.lookups > 0 || n.opens > 0 || len(n.children) > 0 || t.byID[n.id] == nil {
		return
	}
	delete(t.byID, n.id)
	if n.leaving {
		t.leaving--
	}
	if t.inos[n.ino]--; t.inos[n.ino] <= 0 {
		delete(t.inos, n.ino)
	}
	places := n.places
	n.places = nil
	for _, p := range places {
		t.removeChild(p, n)
	}
}

// removeChild takes a node out of a directory. The caller holds the lock.
func (t *tree) removeChild(p place, n *node) {
	if p.dir.children[p.name] != n {
		return
	}
	delete(p.dir.children, p.name)
	switch {
	case len(p.dir.children) > 0 || p.dir == t.root:
	case p.dir.lookups > 0:
		t.given(p.dir, true) // it can be forgotten now
	default:
		t.drop(p.dir)
	}
}

// hold counts an open file or directory; release ends that.
func (t *tree) hold(n *node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n.opens++
}

func (t *tree) release(n *node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n.opens--
	t.drop(n)
	if n != t.root && n.opens == 0 && n.lookups > 0 {
		t.given(n, n.isDir())
	}
}

// addPlace gives a node another name.
func (t *tree) addPlace(n *node, dir *node, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old := dir.children[name]; old != nil && old != n {
		t.removePlace(old, place{dir, name})
	}
	n.places = append(n.places, place{dir, name})
	dir.setChild(name, n)
	n.lookups++
}

// unlinked records that a name is gone on the host.
func (t *tree) unlinked(dir *node, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := dir.children[name]; n != nil {
		t.removePlace(n, place{dir, name})
		t.drop(n)
	}
}

// vanished unlinks a name that is missing on the host, unless it is being renamed there.
func (t *tree) vanished(dir *node, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := dir.children[name]; n != nil && t.moving[n] == 0 {
		t.removePlace(n, place{dir, name})
		t.drop(n)
	}
}

// removePlace removes a name from a node. The caller holds the lock.
func (t *tree) removePlace(n *node, gone place) {
	n.places = slices.DeleteFunc(n.places, func(p place) bool { return p == gone })
	t.removeChild(gone, n)
}

// renamed records that the host renamed a file, which may have replaced another.
func (t *tree) renamed(from, to place) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if from == to {
		return
	}
	n := from.dir.children[from.name]
	old := to.dir.children[to.name]
	if old != nil {
		if old == n {
			return // two names of one file: rename does nothing
		}
		t.removePlace(old, to)
		t.drop(old)
	}
	if n == nil {
		return
	}
	t.removePlace(n, from)
	n.places = append(n.places, to)
	to.dir.setChild(to.name, n)
}

// links returns how many names a node has.
func (t *tree) links(n *node) int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(n.places)
}

// placesOf returns a node's names.
func (t *tree) placesOf(n *node) []place {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Clone(n.places)
}
