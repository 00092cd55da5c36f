package transfer

import (
	"errors"
	"io/fs"
	"path"
	"path/filepath"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/filecopy"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/pool"
)

// copyLink recreates a symbolic link of the source.
func (w *walk) copyLink(e *entry) {
	t := w.tree
	err := e.readText()
	if err == nil {
		err = t.makeLink(e, e.text)
	}
	if err == nil {
		err = w.finishLink(e)
	}
	if err != nil {
		e.fail(err)
		return
	}
	t.count(&t.sums.Links, 1)
	if t.options.RemoveSource {
		e.removeSource(!e.absent())
	}
}

// readText reads the text of a link in the source.
func (e *entry) readText() (err error) {
	e.text, err = e.dir.tree.readLink(e)
	return endpoint.OfSource(err)
}

// readLink returns the text of a link in the source. Some servers answer READLINK with the resolved
// path, which means nothing elsewhere: within the source it becomes relative.
func (t *tree) readLink(e *entry) (string, error) {
	conn := t.src.Conn()
	if conn == nil {
		if err := t.sources.open(t.job); err != nil {
			return "", err
		}
		text, err := t.sources.ReadLink(e.rel())
		return text, throughLinkOnly(err)
	}
	if !private.OfClient(conn.Host().Client).ResolvesLinks() {
		return t.src.ReadLink(e.source())
	}
	root, err := t.src.RealPath(t.route.Source)
	if err != nil {
		return "", err
	}
	to, err := t.src.ReadLink(path.Join(root, e.rel())) // so that the answer is absolute, too
	if err != nil || !leadsInto(path.Clean(to), root) {
		return to, err
	}
	to, err = filepath.Rel(path.Join(root, path.Dir(e.rel())), to)
	return filepath.ToSlash(to), err
}

// finishLink gives a symbolic link its source's owner and times, if wanted. If the target cannot
// set them on links, that is reported once and, as with rsync, is no failure: only the file that
// the link leads to matters.
func (w *walk) finishLink(e *entry) error {
	t := w.tree
	var set usftp.NewAttrs
	if err := t.copies.Options.AddOwner(&set, e.info.Owner); err != nil {
		return err
	}
	if t.options.Preserve && !t.options.NoTimes && e.info.HasTimes {
		set.SetTimes = true
		set.Atime, set.Mtime = e.info.Atime, e.info.Mtime
	}
	if !set.SetOwner && !set.SetTimes {
		return nil
	}
	_, err := t.setAttrs(e.rel(), fs.ModeSymlink, true, set)
	if errors.Is(err, errors.ErrUnsupported) ||
		!set.SetOwner && endpoint.Refused(err) && !errors.Is(err, fs.ErrNotExist) {
		w.tree.plainLinks.Do(func() {
			t.root.warn("symbolic links do not get the owners and times of their sources: " +
				"the target cannot set them")
		})
		return nil
	}
	return err
}

// makeLink makes a link at the target, replacing a file or a link.
func (t *tree) makeLink(e *entry, to string) error {
	if err := t.inPlace(e.dir); err != nil {
		return err
	}
	name := e.rel()
	err := t.into.Symlink(to, name)
	if err != nil && !e.dir.fresh {
		err = t.replaceByLink(e, to, err)
	}
	conn := t.dst.Conn()
	switch {
	case conn == nil:
	case err == nil && !path.IsAbs(to) && private.OfClient(conn.Host().Client).LinksFromLogin() &&
		!t.dst.Quirks().ToldLinks.Swap(true):
		t.root.warn("relative symbolic links become absolute: the host stores where they lead")
	case err != nil && pool.Lost(conn.Host().Client):
		t.leftovers.leaves(false)
	}
	return err
}

// replaceByLink replaces the entry that kept a link from being made, with the error failed.
func (t *tree) replaceByLink(e *entry, to string, failed error) error {
	name := e.rel()
	there, err := t.into.Lstat(name)
	switch {
	case err != nil:
		return failed
	case there.Mode.IsDir():
		return &fs.PathError{Op: "replace", Path: e.target(), Err: ErrIsDirectory}
	case there.Mode&fs.ModeSymlink != 0:
		if have, err := t.into.ReadLink(name); err == nil && t.into.SameLink(name, have, to) {
			return nil
		}
	}
	if t.resumed == repeated {
		return &fs.PathError{Op: "replace", Path: e.target(), Err: filecopy.ErrStrange}
	}
	return e.backups().exchange(e, func(bool) error {
		return t.into.ReplaceByLink(to, name, path.Join(e.dir.rel, t.copies.Token.Name(e.name)),
			path.Join(e.dir.rel, t.copies.Token.OldName(e.name)))
	})
}
