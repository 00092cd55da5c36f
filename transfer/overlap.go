package transfer

import (
	"cmp"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/usftp/usftp/internal/endpoint"
)

// A tree copied into itself never ends: the copy is found and copied again. A host may be this very
// machine, or two hosts may be one, and SFTP cannot tell (device and inode numbers are not sent).
// So if, on one machine, the target's path would lie inside the source, and the target's end has the
// source's path too, we make a file at one end and look for it at the other. Two paths on this
// machine are compared by inode.

var (
	errIntoItself = errors.New("a directory cannot be copied into itself")
	errNested     = errors.New(
		"source and target are the same directory, or one is inside the other")
)

// overlap detects that the source and the target of a tree are one, or one is inside the other.
type overlap struct {
	t      *tree
	marks  bool   // the copy is marked, since it may lie in the source
	marker string // name of the marker file; "" if there is none
	unmark func() // removes the marker
	source string // the source's resolved path, once inside has asked for it
}

// inside returns the target's resolved path if, on one machine, that would lie inside the source;
// otherwise "". It takes one round trip.
func (o *overlap) inside() string {
	t := o.t
	var source string
	var asking sync.WaitGroup
	asking.Go(func() { source, _ = t.src.RealPath(t.route.Source) })
	target := path.Clean(filepath.ToSlash(t.route.Target))
	resolved, err := t.dst.RealPath(target)
	if err != nil { // a missing parent is reported when the target is made
		if resolved, err = t.dst.RealPath(path.Dir(target)); err == nil {
			resolved = path.Join(resolved, path.Base(target))
		}
	}
	asking.Wait()
	o.source = source
	switch {
	case path.Join(resolved, t.base) == source:
		return source // it would be copied to itself
	case err == nil && source != "" &&
		(leadsInto(resolved, source) || t.rules.mutual && leadsInto(source, resolved)):
		return resolved
	}
	return ""
}

// leadsInto reports whether a real path is dir or lies below it.
func leadsInto(name, dir string) bool {
	return name == dir || strings.HasPrefix(name, strings.TrimRight(dir, "/")+"/")
}

// check fails if a tree would be copied into itself. dir is inside's result, and source the source's
// resolved path.
func (o *overlap) check(dir, source string) error {
	t := o.t
	if dir == "" {
		return nil
	}
	if t.src.Conn() == t.dst.Conn() {
		return t.rules.apart
	}
	if _, err := t.dst.Lstat(source); endpoint.IsAbsent(err) {
		return nil // another machine, where nothing needs to be made and removed to find out
	}
	var probe string
	var remove func() error
	for ; ; dir = path.Dir(dir) {
		var err error
		probe = path.Join(dir, t.copies.Token.Name("probe"))
		if remove, err = t.do.touch(t, probe); !errors.Is(err, fs.ErrNotExist) ||
			dir == path.Dir(dir) {
			break
		}
	}
	if remove == nil {
		return nil // writing there will fail with the reason
	}
	defer t.untouch(remove, probe)
	_, err := t.src.Lstat(probe)
	if err == nil {
		return t.rules.apart
	}
	return endpoint.IgnoreMissing(err)
}

// apart fails if a directory at the target is the source, or one is inside the other.
func (o *overlap) apart(dir string) error {
	source, err := o.t.src.RealPath(o.t.route.Source)
	resolved, realErr := o.t.dst.RealPath(dir)
	if err = cmp.Or(err, realErr); err != nil {
		return err
	}
	if leadsInto(resolved, source) || leadsInto(source, resolved) {
		return o.check(resolved, source)
	}
	return nil
}

// touch makes an empty file at the target; remove is not nil if the file may exist.
func touch(dst target, name string) (remove func() error, err error) {
	err = dst.WriteSmall(name, nil, endpoint.Create)
	// Without an answer the file may exist: the connection was lost, or the run has ended, for example
	// because a walker has met the file.
	if err == nil || errors.Is(err, endpoint.ErrRepeated) ||
		dst.Conn() != nil && !endpoint.Refused(err) {
		remove = func() error {
			err := dst.Remove(name, false)
			if err != nil && !endpoint.Refused(err) {
				// The run may have ended meanwhile. Now it is cleaned up after it.
				err = endpoint.IgnoreMissing(dst.Remove(name, false))
			}
			return err
		}
	}
	return remove, err
}

// untouch removes the file that touch made, or reports that it stays.
func (j *job) untouch(remove func() error, name string) {
	if endpoint.IgnoreMissing(remove()) == nil {
		return
	}
	if j.tree != nil {
		j.tree.leftovers.leaves(true)
	}
	j.tell(&Event{Kind: Warning, Route: Route{Target: name}, Size: -1,
		Message: "the temporary file " + endpoint.Shown(j.route.TargetHost, name) +
			" could not be removed"})
}

// If one end sees less of a machine than the other, because of a chroot or a bind mount, paths
// prove nothing. So if both ends report the same file system number, a file whose name contains
// this run's token lies in the copy until everything is listed. A walk looks for it in each
// directory before anything there is copied. A walk that meets the token, there or in a temporary
// name, is inside its own copy.

// near reports whether both ends may be on the same file system. It takes one round trip.
func (o *overlap) near() bool {
	t := o.t
	if t.src.Conn() == t.dst.Conn() {
		return false
	}
	target := path.Clean(filepath.ToSlash(t.route.Target))
	var source, parent [2]uint64
	var asking sync.WaitGroup
	asking.Go(func() { source = t.src.Volume(t.route.Source) })
	asking.Go(func() { parent = t.dst.Volume(path.Dir(target)) })
	to := t.dst.Volume(target)
	asking.Wait()
	if to == [2]uint64{} {
		to = parent
	}
	return slices.ContainsFunc(source[:], func(from uint64) bool {
		return from != 0 && slices.Contains(to[:], from)
	})
}

// mark places a marker file in the copy, which may lie in the source, until unmark is called.
func (o *overlap) mark() {
	t := o.t
	name := t.copies.Token.Name("probe")
	remove, _ := t.do.touch(t, t.dst.Join(t.root.target, name))
	if remove == nil { // writing there will fail with the reason
		return
	}
	t.root.pending.Add(1) // its times are set after unmark
	o.marker, o.unmark = name, func() {
		if endpoint.IgnoreMissing(remove()) != nil {
			t.leftovers.leaves(false)
			if t.ctx.Err() == nil {
				t.root.warn(t.leftBehind())
			}
		}
		t.walk.done(t.root)
	}
}

// met ends a copy that has met itself.
func (o *overlap) met() {
	t := o.t
	t.root.fail(errIntoItself)
	t.cancel(errIntoItself)
}
