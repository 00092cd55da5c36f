package transfer

import (
	"cmp"
	"errors"
	"io/fs"
	"path"
	"strings"
	"sync/atomic"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/pool"
)

// remoteTarget is a path on a host as a target.
type remoteTarget struct {
	*remoteEnd
	placement
	existing bool // a tree's target existed before anything was made
	real     realRoot
	beneath  beneath

	// a directory was not looked at before deleting, since the host follows no links
	trusting atomic.Bool
}

// beneath is how requests below the target of a tree are kept from following links. A host that has
// beneath@usftp sees to it itself (docs/beneath.md). Another connection may reach a server without
// it, so that is found out for each.
type beneath struct{ last atomic.Pointer[beneathView] }

type beneathView struct {
	of, client *usftp.Client
	ok         bool
}

// view returns a client whose requests follow no link below the target of the tree; ok is false,
// and the client follows links, if the host cannot promise that. The target itself may be a link:
// the user named it.
func (t *remoteTarget) view(client *usftp.Client) (view *usftp.Client, ok bool) {
	tree := t.job.tree
	if tree == nil || tree.root == nil { // before the tree, or a single file
		return client, false
	}
	if last := t.beneath.last.Load(); last != nil && (last.of == client || last.client == client) {
		return last.client, last.ok
	}
	v := &beneathView{of: client}
	above := strings.TrimSuffix(path.Join(tree.root.target, "x"), "x")
	v.client, v.ok = private.OfClient(client).Beneath(above)
	t.beneath.last.Store(v)
	return v.client, v.ok
}

// inPlace fails if a link has taken the place of a directory that was found at the target, as far as
// one look shows, right before the first change in it. Nothing else is possible on hosts without
// beneath@usftp. The others have been looked at when they were made, or when making them failed.
func (t *remoteTarget) inPlace(client *usftp.Client, d *directory) error {
	if _, ok := t.view(client); ok || d.parent == nil || !d.made {
		return nil
	}
	d.looked.Do(func() {
		var looks []func() (fs.FileInfo, error) // at d and all above it, in one round trip
		for up := d; up.parent != nil; up = up.parent {
			looks = append(looks, private.OfClient(client).StartLook(up.target))
		}
		up := d
		for _, look := range looks {
			if info, err := look(); err == nil && !info.IsDir() {
				d.linked = &fs.PathError{Op: "write", Path: up.target, Err: errLinkInWay}
			}
			up = up.parent
		}
	})
	return d.linked
}

// over is remoteEnd.over with a client that follows no link below the target, if the host can
// promise that.
func (t *remoteTarget) over(name string, do func(client *usftp.Client, again bool) error) error {
	return t.remoteEnd.over(name, func(client *usftp.Client, again bool) error {
		view, _ := t.view(client)
		return do(view, again)
	})
}

func (t *remoteTarget) close()           {}
func (t *remoteTarget) is(facts) bool    { return false }
func (t *remoteTarget) leave(*directory) {}

func (t *remoteTarget) limits() (limits, error) {
	l, err := t.remoteEnd.limits(func(_, write int) int { return write })
	// A small file sent in one piece cannot be fsynced on the way. With Sync these files take as
	// many steps as large ones, and many are in progress at a time.
	if t.job.options.Sync {
		l.stepwise, l.small = l.small, -1
	}
	return l, err
}

func (t *remoteTarget) begin(_ facts, base string, inside func() error) (string, error) {
	if err := t.job.checkBase(base, t.checkName); err != nil {
		return t.job.route.Target, err
	}
	name := cmp.Or(t.job.route.Target, ".")
	info, err := t.stat(name)
	untold := private.Untold(err)
	switch {
	case err == nil && info.IsDir(), untold && (meansDirectory(name) ||
		strings.HasSuffix(name, "/") && !errors.Is(err, usftp.ErrSSHFxFailure)): // it is missing
		name = path.Join(name, base)
		t.existing = base == "."
	case err == nil:
		return name, &fs.PathError{Op: "write", Path: name, Err: errNotDirectory}
	case !untold && !errors.Is(err, fs.ErrNotExist):
		return name, err
	}
	return name, inside()
}

func (t *remoteTarget) dispose(string) bool { return false }

// tidy also restores the name of an old file that was moved aside, if that name is free.
func (t *remoteTarget) tidy(root, rel string, stale func(name string, isDir bool) bool) error {
	dir := path.Join(root, rel)
	return t.over(dir, func(client *usftp.Client, _ bool) error {
		var names []string
		for f, err := range client.Entries(dir) {
			if err != nil {
				return ignoreMissing(err)
			}
			stat := f.FileStat()
			if stale(f.BaseName(), stat.HasMode() && stat.FileMode().IsDir()) {
				names = append(names, f.BaseName())
			}
		}
		var steps []step
		var failed error
		for _, name := range names {
			temporary := path.Join(dir, name)
			if base, old := localfs.OldNameOf(name); old {
				if base == "" {
					failed = errOldName
					continue
				}
				failed = errors.Join(failed, takeBack(client, temporary, path.Join(dir, base)))
				continue
			}
			steps = append(steps, func() func() error {
				removed := waits(t.job.ctx, client.Async().Remove(temporary))
				return func() error { return ignoreMissing(removed()) }
			})
		}
		return errors.Join(failed, runSteps(steps, true))
	})
}

var errOldName = errors.New("the name of an old file that was moved aside is not known")

// check refuses names that SFTP cannot carry, and those that a source server must not choose.
func (t *remoteTarget) check(d *directory, name string) error {
	if strings.ContainsAny(name, "/\x00") {
		return ErrBadName
	}
	if err := t.checkName(name); err != nil || t.job.src.conn() == nil {
		return err
	}
	// Writing in place follows whatever the name leads to, and so do some servers' renames: the
	// source must not have turned it into a link with an earlier entry.
	if (t.job.options.Placement == PlaceDirect ||
		!private.OfClient(t.link.Host().Client).KnowsLinks()) && !d.addName(name) {
		return errTwice
	}
	return nil
}

// checkName refuses names that a source server must not choose.
func (t *remoteTarget) checkName(name string) error {
	if t.job.src.conn() == nil {
		return nil
	}
	return localfs.CheckForeignName(name)
}

var errTwice = errors.New("server sent the same file name twice")

func (t *remoteTarget) makeDir(d *directory) (fresh bool, err error) {
	if d.parent == nil && t.existing {
		return false, nil
	}
	err = t.over(d.source, func(client *usftp.Client, again bool) error {
		if d.parent != nil {
			if err := t.inPlace(client, d.parent); err != nil {
				return err
			}
		}
		fresh, err = makeRemoteDir(client, d, again)
		return err
	})
	return fresh, err
}

// makeRemoteDir makes a directory. If the connection was lost during the request, an existing
// directory may be one that we made.
func makeRemoteDir(client *usftp.Client, d *directory, again bool) (fresh bool, err error) {
	err = client.MkdirPerm(d.target, d.facts.perm()|0o700)
	if err == nil {
		return true, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return false, explainMissing(err, client, path.Dir(path.Clean(d.target)))
	}
	// Version 3 has no status for "already exists", so look at what is there.
	look := private.OfClient(client).Look
	if d.parent == nil {
		look = private.OfClient(client).Find // the user named the target, so links in it are followed
	}
	info, lookErr := look(path.Clean(d.target))
	switch {
	case lookErr != nil && errors.Is(err, usftp.ErrSSHFxFailure):
		return false, explainFailure(err, client, d.tree.route.TargetHost, path.Dir(d.target))
	case lookErr != nil:
		return false, err
	case info.Mode()&fs.ModeSymlink != 0:
		return false, errLinkInWay
	case !info.IsDir():
		return false, errNotDirectory
	}
	return again && (d.parent != nil && d.parent.fresh || isEmpty(client, d.target)), nil
}

// isEmpty reports whether a directory is known to be empty.
func isEmpty(client *usftp.Client, dir string) bool {
	for range client.Entries(dir) {
		return false // an entry, or an error
	}
	return true
}

func (t *remoteTarget) finishDir(d *directory) error {
	set, err := d.attrs()
	if err != nil || set == (usftp.NewAttrs{}) {
		return err
	}
	set.Atime, set.Mtime = d.facts.times()
	t.job.tree.sync.settable(&set)
	t.placement.quirks.Settable(&set)
	err = t.setDir(d, set)
	if !refused(err) {
		return err
	}
	if s := t.job.tree.sync; s != nil && !d.fresh {
		s.inventories.find()
	}
	say := func(why string) { t.job.tree.warn(d.source, d.target, why) }
	return t.placement.setEach(set, d.fresh, say, func(part usftp.NewAttrs) error {
		return t.over(d.source, func(client *usftp.Client, _ bool) error {
			name := d.target
			if d.parent == nil { // it may be a link
				if real, err := client.RealPath(name); err == nil {
					name = real
				}
			}
			return setUnfollowed(client, name, part, fs.FileMode.IsDir)
		})
	})
}

func (t *remoteTarget) setDir(d *directory, set usftp.NewAttrs) error {
	if set == (usftp.NewAttrs{}) {
		return nil
	}
	return t.over(d.source, func(client *usftp.Client, _ bool) error {
		switch {
		case d.parent == nil || d.fresh: // the user named it, or it was made just now
			return client.SetAttrs(d.target, set)
		case t.job.tree.sync != nil: // long after it was looked at, perhaps after all deletions
			if _, ok := t.view(client); ok {
				break
			}
			if _, err := t.lookUnmoved(client, d); err != nil {
				return err
			}
		}
		return setUnfollowed(client, d.target, set, fs.FileMode.IsDir)
	})
}

// setUnfollowed sets attributes, but follows no link in the last element. On servers without
// lsetstat@openssh.com, and on those that cannot carry it out (a chroot without /proc), it checks
// immediately before.
func setUnfollowed(client *usftp.Client, name string, set usftp.NewAttrs,
	is func(fs.FileMode) bool) error {
	err := client.LsetAttrs(name, set)
	if !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, usftp.ErrSSHFxFailure) {
		return err
	}
	info, err := private.OfClient(client).Look(name)
	if err == nil && !is(info.Mode()) {
		err = &fs.PathError{Op: "setstat", Path: name, Err: errReplaced}
	}
	if err == nil {
		err = client.SetAttrs(name, set)
	}
	return err
}

func (t *remoteTarget) makeLink(e *entry, to string) error {
	temporary := path.Join(e.dir.target, t.job.token.Name(e.name))
	aside := path.Join(e.dir.target, t.job.token.OldName(e.name))
	err := t.over(e.source(), func(client *usftp.Client, again bool) error {
		if err := t.inPlace(client, e.dir); err != nil {
			return err
		}
		if again {
			client.Remove(temporary)
			if err := takeBack(client, aside, e.target()); err != nil && !refused(err) {
				return err
			}
			if leadsTo(client, e.target(), to) {
				return nil
			}
		}
		return makeRemoteLink(client, e, to, temporary, aside)
	})
	if err != nil && pool.Lost(t.link.Host().Client) {
		t.job.tree.litter.leaves(false)
	}
	return err
}

// leadsTo reports whether a name is a link that means to.
func leadsTo(client *usftp.Client, name, to string) bool {
	have, err := client.ReadLink(name)
	return err == nil && private.OfClient(client).LinksTo(name, have, to)
}

// makeRemoteLink makes a link, replacing a file or a link.
func makeRemoteLink(client *usftp.Client, e *entry, to, temporary, aside string) error {
	target := e.target()
	err := client.Symlink(to, target)
	if err == nil || e.dir.fresh {
		return err
	}
	info, lookErr := private.OfClient(client).Look(target)
	switch {
	case lookErr != nil:
		return err
	case info.IsDir():
		return &fs.PathError{Op: "replace", Path: target, Err: ErrIsDirectory}
	case info.Mode()&fs.ModeSymlink != 0 && leadsTo(client, target, to):
		return nil
	}
	return e.backups().exchange(e, func(bool) error {
		return private.OfClient(client).ReplaceByLink(to, target, temporary, aside)
	})
}

// takeBack gives a file that was moved aside its name back if that is free, and otherwise removes
// it. It may be gone already.
func takeBack(client *usftp.Client, aside, target string) error {
	if _, err := client.Lstat(target); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = client.Remove(aside)
		}
		return ignoreMissing(err)
	}
	return ignoreMissing(client.Rename(aside, target))
}

// finishLink takes a round trip and needs lsetstat@openssh.com (OpenSSH PROTOCOL, section 4.7).
func (t *remoteTarget) finishLink(e *entry, set usftp.NewAttrs) error {
	t.job.tree.sync.settable(&set)
	return t.over(e.source(),
		func(client *usftp.Client, _ bool) error { return client.LsetAttrs(e.target(), set) })
}

// place examines the target. A file of a tree takes no round trip in a directory that this copy
// made. For a single file, a directory is entered and a symbolic link followed, since a rename
// would replace the link: that takes one round trip, and one more for a directory or a link.
func (t *remoteTarget) place(c *fileCopy, in input) (output, error) {
	o := &remoteOutput{end: t, session: c.to}
	o.client, _ = t.view(c.to.client)
	if c.entry != nil {
		o.name = c.entry.target()
		if err := t.inPlace(o.client, c.entry.dir); err != nil {
			return nil, err
		}
		if c.entry.absent() {
			return o, nil
		}
		return o, o.look(private.OfClient(o.client).Look(o.name))
	}
	return o, t.find(c, o)
}

// find examines the target of a single file.
func (t *remoteTarget) find(c *fileCopy, o *remoteOutput) error {
	name, link := cmp.Or(t.job.route.Target, "."), false
	c.name = path.Base(name)
	stat := func(name string) (info fs.FileInfo, err error) {
		info, link, err = c.to.look(c.ctx, name)
		return info, err
	}
	err := o.location.find(c, name, strings.HasSuffix(name, "/"), t.checkName, stat)
	if errors.Is(err, fs.ErrNotExist) {
		err = explainMissing(err, o.session.client, path.Clean(name))
	}
	if err != nil {
		return err
	}
	o.direct = o.info != nil && !o.info.Mode().IsRegular()
	if link {
		resolved, err := c.to.client.RealPath(o.name)
		if err != nil || resolved == o.name {
			c.warn("the target is a symbolic link that cannot be followed: it is written through the link, in place")
			o.direct = true
		} else {
			o.name = resolved
		}
	}
	return nil
}
