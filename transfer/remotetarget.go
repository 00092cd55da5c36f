package transfer

import (
	"cmp"
	"errors"
	"io/fs"
	"path"
	"strings"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/private"
)

// remoteTarget is a path on a host as a target.
type remoteTarget struct {
	*remoteEnd
	placement
	root *endpoint.HostRoot // of a tree
}

func (t *remoteTarget) asSource() end { return &remoteSource{t.remoteEnd} }

// view returns a client whose requests in a directory follow no link below the target of a tree;
// see [endpoint.HostRoot.View].
func (t *remoteTarget) view(client *usftp.Client, e *entry) (view *usftp.Client, ok bool) {
	if t.root == nil { // a single file
		return client, false
	}
	return t.root.View(client, e.dir.rel)
}

func (t *remoteTarget) limits() (limits, error) {
	l, err := t.remoteEnd.limits(func(_, write int) int { return write })
	// A small file sent in one piece cannot be fsynced on the way. With Sync these files take as
	// many steps as large ones, and many are in progress at a time.
	if t.job.options.Sync {
		l.stepwise, l.small = l.small, -1
	}
	return l, err
}

func (t *remoteTarget) begin(_ endpoint.Info, base string,
	inside func() error) (to targetDir, err error) {
	to.path = t.job.route.Target
	if err := t.job.checkBase(base, t.checkName); err != nil {
		return to, err
	}
	to.path = cmp.Or(to.path, ".")
	there, err := t.Stat(to.path)
	untold := private.Untold(err)
	switch {
	case err == nil && there.Mode.IsDir(), untold && (meansDirectory(to.path) ||
		strings.HasSuffix(to.path, "/") && !errors.Is(err, usftp.ErrSSHFxFailure)): // it is missing
		to.path = path.Join(to.path, base)
		to.exists = base == "."
	case err == nil:
		return to, &fs.PathError{Op: "write", Path: to.path, Err: endpoint.ErrNotDirectory}
	case !untold && !errors.Is(err, fs.ErrNotExist):
		return to, err
	}
	if err := inside(); err != nil {
		return to, err
	}
	t.root = endpoint.NewHostRoot(t.Host, to.path)
	to.Root = t.root
	return to, nil
}

func (t *remoteTarget) dispose(string) bool { return false }

// check refuses names that SFTP cannot carry, and those that a source server must not choose.
func (t *remoteTarget) check(d *directory, name string) error {
	if strings.ContainsAny(name, "/\x00") {
		return ErrBadName
	}
	if err := t.checkName(name); err != nil || t.job.src.conn() == nil {
		return err
	}
	// Writing in place follows whatever the name leads to, and so do some servers' renames, and
	// links that stand for directories: the source must not have turned it into a link with an
	// earlier entry.
	if (t.job.options.Placement == PlaceDirect || t.job.tree.options.KeepDirLinks ||
		!private.OfClient(t.link.Host().Client).KnowsLinks()) && !d.names.addExactly(name) {
		return errTwice
	}
	return nil
}

// checkName refuses names that a source server must not choose, and those that the host takes for
// others.
func (t *remoteTarget) checkName(name string) error {
	if t.job.src.conn() != nil {
		if err := localfs.CheckForeignName(name); err != nil {
			return err
		}
	}
	return t.checkReserved(name)
}

// checkReserved returns nil if the host, as far as is known, takes a name for that of the file that
// it names, and of no other.
func (t *remoteTarget) checkReserved(name string) error {
	if !private.OfClient(t.link.Host().Client).OnWindows() || strings.Trim(name, "./") == "" {
		return nil
	}
	if err := localfs.CheckWindows(name); err != nil {
		return endpoint.Explain("the host runs Windows: "+err.Error(), fs.ErrInvalid)
	}
	return nil
}

var errTwice = errors.New("server sent the same file name twice")

// place examines the target. A file of a tree takes no round trip in a directory that this copy
// made. For a single file, a directory is entered and a symbolic link followed, since a rename
// would replace the link: that takes one round trip, and one more for a directory or a link.
func (t *remoteTarget) place(c *fileCopy, in *input) (output, error) {
	o := &remoteOutput{end: t, session: c.to}
	o.placement, o.maker = t.placement, o
	o.client, _ = t.view(c.to.client, c.entry)
	if c.entry != nil {
		o.name = c.entry.target()
		if err := t.job.tree.inPlace(c.entry.dir); err != nil {
			return nil, err
		}
		if c.entry.absent() {
			return o, nil
		}
		err := o.look(o.lstat(o.name))
		return o, cmp.Or(err, lookBehind(c, &o.location))
	}
	err := t.find(c, o)
	return o, cmp.Or(err, lookBehind(c, &o.location))
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
		err = endpoint.ExplainMissing(err, o.session.client, path.Clean(name))
	}
	if err != nil {
		return err
	}
	if err := t.checkReserved(path.Base(o.name)); err != nil {
		return &fs.PathError{Op: "write", Path: o.name, Err: err}
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
