package server

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"
)

// A change under a quota holds, taken in this order:
//
//  1. its names ([changes]), so that no other change of them is under way;
//  2. the regular files found there (mu of [inode]), also against their handles and their other
//     names. Where nothing is found the name is locked in the same way, since an upload that ends
//     now may make a file appear.
//
// Then the backend makes the change, and the account follows it. A write locks its file only, the
// end of a handle also the file that it replaces. A count holds all names and files.

// entry is what a name leads to. It is locked, so the size and the number of names stay as they
// are.
type entry struct {
	info fs.FileInfo
	err  error
	lock *inode // the file, if it is a regular one, or the name, if nothing has it; otherwise nil
}

// file returns the regular file, or nil if there is none.
func (e *entry) file() *inode {
	if e.err != nil {
		return nil
	}
	return e.lock
}

// look is Stat or Lstat.
type look func(ctx context.Context, name string) (fs.FileInfo, error)

// hold finds what one or two names lead to, and locks it. The caller has entered a change of them.
// Unless also is nil it locks that file, too, which has a handle.
func (q *Quota) hold(ctx context.Context, look look, also *inode,
	names ...string) (entries []entry, release func()) {
	for {
		endings := q.inodes.endings()
		var locked []*inode
		if also != nil {
			locked = append(locked, q.inodes.hold(also))
		}
		entries = entries[:0]
		for _, name := range names {
			var e entry
			e.info, e.err = look(ctx, name)
			switch {
			case e.err == nil && e.info.Mode().IsRegular():
				e.lock = q.inodes.use(identityOf(e.info, name))
			case errors.Is(e.err, fs.ErrNotExist):
				e.lock = q.inodes.use(name)
			}
			if slices.Contains(locked, e.lock) { // two names of one file
				q.inodes.leave(e.lock)
			} else if e.lock != nil {
				locked = append(locked, e.lock)
			}
			entries = append(entries, e)
		}
		lockInOrder(locked)
		release = func() {
			for _, f := range locked {
				q.release(f)
			}
		}
		confirmed := func() bool {
			for i, name := range names {
				if !q.confirm(ctx, look, &entries[i], name, endings) {
					return false
				}
			}
			return true
		}
		if try(confirmed, release) {
			return entries, release
		}
	}
}

// release unlocks a file and leaves it.
func (q *Quota) release(f *inode) {
	f.mu.Unlock()
	q.inodes.leave(f)
}

// confirm reports whether an entry is still right, now that it is locked. Before that others may
// have changed it by another name, or ended an upload. It looks again only where that may be so.
func (q *Quota) confirm(ctx context.Context, look look, e *entry, name string,
	endings uint64) bool {
	quiet := q.inodes.endings() == endings
	f := e.file()
	if f == nil {
		if e.lock == nil || quiet && !e.lock.known {
			return true
		}
		_, err := look(ctx, name)
		return errors.Is(err, fs.ErrNotExist)
	}
	key := q.inodes.keyOf(f)
	_, named := key.(string)
	if f.known && !named || !f.known && !quiet {
		if e.info, e.err = look(ctx, name); e.err != nil || !e.info.Mode().IsRegular() {
			return false
		}
	}
	if f.unlinked || identityOf(e.info, name) != key {
		return false
	}
	if !f.known {
		f.known, f.size = true, e.info.Size()
	}
	return true
}

// enter waits for the changes that concern these names, and counts the tree unless that is already
// done. moves marks a change after which other paths may lead elsewhere: with links or "..", any
// path may.
func (v *View) enter(ctx context.Context, moves bool, names ...string) (leave func(), err error) {
	if err := v.quota.ready(ctx, v); err != nil {
		return nil, err
	}
	if _, links := v.fs.(Symlinker); moves && (links || v.walks) {
		return v.quota.changes.enter(ctx, true, "/")
	}
	if !v.uploadsAtomically() {
		return v.quota.changes.enter(ctx, moves, names...)
	}
	// Two uploads of one file are two files, connected only by the name.
	for {
		real := v.realPaths(ctx, names)
		leave, err = v.quota.changes.enter(ctx, moves, real...)
		still := func() bool { return slices.Equal(real, v.realPaths(ctx, names)) }
		if err != nil || try(still, leave) {
			return leave, err
		}
	}
}

// realPaths resolves the paths that can be resolved.
func (v *View) realPaths(ctx context.Context, names []string) (real []string) {
	for _, name := range names {
		if resolved, err := v.realPath(ctx, name); err == nil {
			name = resolved
		}
		real = append(real, name)
	}
	return real
}

// samePath reports whether two paths lead to one name.
func (v *View) samePath(ctx context.Context, a, b string) bool {
	real := v.realPaths(ctx, []string{a, b})
	return real[0] == real[1]
}

// enterAndHold enters a change, and holds what the names lead to, without following links. The
// change moves if one of them is a link, or a directory and directories is set.
func (v *View) enterAndHold(ctx context.Context, directories bool,
	names ...string) (entries []entry, leave func(), err error) {
	for moves := false; ; moves = true {
		left, err := v.enter(ctx, moves, names...)
		if err != nil {
			return nil, nil, err
		}
		var release func()
		try(func() bool {
			entries, release = v.quota.hold(ctx, v.lstat, nil, names...)
			return true
		}, left)
		leave = func() {
			release()
			left()
		}
		harmless := !slices.ContainsFunc(entries, func(e entry) bool {
			return e.err == nil && e.lock == nil && (directories || !e.info.IsDir())
		})
		if moves || harmless {
			return entries, leave, nil
		}
		leave()
	}
}

// lastLooks limits how long a backend may take for a last look.
const lastLooks = 10 * time.Second

// lastLook describes a file for a request whose session may be over.
func lastLook(ctx context.Context, name string,
	look look) (fs.FileInfo, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLooks)
	defer cancel()
	return look(ctx, name)
}
