package transfer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"

	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/filecopy"
	"github.com/usftp/usftp/internal/localfs"
)

// sourceRoot is the directory in which sources are removed, and read or listed where a path might
// lead out of the tree.
type sourceRoot struct {
	once sync.Once
	endpoint.Root
	err error
}

func (s *sourceRoot) open(j *job) error {
	s.once.Do(func() {
		dir := j.route.Source
		if j.tree == nil {
			dir = filecopy.Above(j.src, dir)
		}
		if s.Root, s.err = j.src.Below(dir); s.err == nil {
			s.err = s.Unmoved(".")
		}
		if s.err == nil && j.tree != nil && j.src.Conn() == nil {
			is, err := s.Lstat(".")
			if s.err = err; err == nil && !os.SameFile(is.Local, j.tree.root.info.Local) {
				s.err = &fs.PathError{Op: "open", Path: dir, Err: errMoved}
			}
		}
	})
	return s.err
}

// beneath opens a file of a tree on this machine, and follows no link below the tree's top.
func (j *job) beneath(rel string) (endpoint.Reader, error) {
	if err := j.sources.open(j); err != nil {
		return nil, err
	}
	f, err := endpoint.OpenIn(j.ctx, j.sources.Root.(*endpoint.LocalRoot), rel)
	return f, throughLinkOnly(err)
}

// renumbered reports whether a directory that has another inode than when it was found looks the same
// nevertheless, and no link leads to it. FAT and many FUSE file systems give their entries new inode
// numbers when memory is short.
func (d *directory) renumbered() bool {
	t := d.tree
	if t.sources.open(t.job) != nil {
		return false
	}
	is, err := t.sources.Lstat(d.rel)
	if err != nil {
		return false
	}
	was, now := d.info.Local, is.Local
	device, _, known := strings.Cut(localfs.ID(was), ":")
	return known && strings.HasPrefix(localfs.ID(now), device+":") && now.Mode() == was.Mode() &&
		now.ModTime().Equal(was.ModTime())
}

// relist lists a directory, and follows no link on the way to it.
func (s *sourceRoot) relist(dir string, each func(string, endpoint.Info, error) bool) error {
	err := s.List(dir, nil, nil, each)
	if err == nil { // otherwise entries may have been missed
		err = s.Unmoved(dir)
	}
	if err == endpoint.ErrMoved {
		err = errMoved
	}
	return throughLinkOnly(err)
}

// throughLinkOnly passes on an error below the source, where a link can only have come meanwhile.
func throughLinkOnly(err error) error {
	if errors.Is(err, endpoint.ErrLinkInWay) {
		err = errLinkOnTheWay
	}
	return err
}

var errLinkOnTheWay = fmt.Errorf("%w: a directory on the way to it is a symbolic link now",
	ErrSourceChanged)
