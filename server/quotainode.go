package server

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
)

// inodes holds the files that are open for writing or being changed, by identity: a name does not
// identify a file, since others may lead to it, too.
type inodes struct {
	mu    sync.Mutex
	all   map[any]*inode
	made  uint64 // how many were ever made
	ended uint64 // how many are gone
}

// inode is a file with any number of handles and names, or a name that is locked as long as nothing
// has it.
type inode struct {
	number uint64 // its place in inodes.made

	// Under the lock of inodes.
	key   any
	users int // handles, and changes under way

	// mu is held while the size or the last name changes, by the backend as well, so that the count
	// follows in the same order. Only a rename takes two, the lower number first.
	mu       sync.Mutex
	known    bool // size is known
	size     int64
	handles  int
	opened   bool // it has, or had, handles
	unlinked bool // its last name is gone

	// Of the open file of a Counter.
	tally *tally
	least int64 // bytes that count already, of size
	more  int64 // files that it is to be more, which are reserved

	// The writes in flight may come after a truncation.
	ends     []int64 // where they end
	appended int64   // bytes of the appending ones
}

// use returns the file with a key, and counts a user; leave ends the use.
func (q *inodes) use(key any) *inode {
	q.mu.Lock()
	defer q.mu.Unlock()
	f := q.all[key]
	if f == nil {
		q.made++
		f = &inode{number: q.made, key: key}
		if q.all == nil {
			q.all = map[any]*inode{}
		}
		q.all[key] = f
	}
	f.users++
	return f
}

// hold adds a user to a file that already has one.
func (q *inodes) hold(f *inode) *inode {
	q.mu.Lock()
	defer q.mu.Unlock()
	f.users++
	return f
}

// lock uses a file that exists, and locks it.
func (q *inodes) lock(key any) *inode {
	for {
		f := q.use(key)
		f.mu.Lock()
		if !f.unlinked {
			return f
		}
		f.mu.Unlock() // a removed file that had the same identity
		q.leave(f)
	}
}

func (q *inodes) leave(f *inode) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if f.users--; f.users > 0 {
		return
	}
	if q.all[f.key] == f {
		delete(q.all, f.key)
	}
	if f.known { // not only a name that was locked
		q.ended++
	}
}

// keyOf returns a file's key, which a rename or removal changes.
func (q *inodes) keyOf(f *inode) any {
	q.mu.Lock()
	defer q.mu.Unlock()
	return f.key
}

func (q *inodes) endings() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ended
}

// unlink records that a file, which is locked, has lost its last name. It forgets the key: a new
// file may get the same identity.
func (q *inodes) unlink(f *inode) {
	f.unlinked = true
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.all, f.key)
	f.key = f
	q.all[f] = f
}

// moved renames files that are known only by their paths.
func (q *inodes) moved(oldName, newName string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for key, f := range maps.Clone(q.all) {
		name, ok := key.(string)
		if ok && (name == oldName || isBelow(name, oldName)) {
			delete(q.all, key)
			f.key = newName + strings.TrimPrefix(name, oldName)
			q.all[f.key] = f
		}
	}
}

// lockAll locks all files. The caller ensures that none is added meanwhile.
func (q *inodes) lockAll() (all map[any]*inode, unlock func()) {
	q.mu.Lock()
	all = maps.Clone(q.all)
	q.mu.Unlock()
	files := slices.Collect(maps.Values(all))
	lockInOrder(files)
	return all, func() {
		for _, f := range files {
			f.mu.Unlock()
		}
	}
}

func lockInOrder(files []*inode) {
	slices.SortFunc(files, func(a, b *inode) int { return cmp.Compare(a.number, b.number) })
	for _, f := range files {
		f.mu.Lock()
	}
}

// atLeast returns the size that a file of the given size may have after the writes in flight.
func (f *inode) atLeast(size int64) int64 {
	for _, end := range f.ends {
		size = max(size, end)
	}
	return max(f.least, size+f.appended)
}

// settle corrects the count by the size that a file has.
func (q *Quota) settle(f *inode, size int64) {
	q.account.Settle(size-f.size, 0)
	f.size = size
}

// resized sets the size, whose growth a Counter's file takes only once it is closed.
func (f *inode) resized(q *Quota, size int64) {
	if f.tally != nil {
		q.await(size-f.size, 0)
	}
	f.size = size
}
