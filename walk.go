package usftp

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/usftp/usftp/internal/treewalk"
)

// WalkDir walks the tree at root like [path/filepath.WalkDir], calling fn for each file and
// directory in lexical order, including root; errors, [fs.SkipDir] and [fs.SkipAll] work as there.
// It does not follow symbolic links. Entries carry their attributes, so Info sends no request. What
// the server describes without a type, and which can be read neither as a file nor as a directory,
// comes a second time, with the error: see [FileStat.HasType].
//
// fn is called on the calling goroutine, one call at a time, while up to 256 directories ahead of
// it are being listed, up to 128 if the server does not say how many handles it allows. So a walk
// over a long link takes a few round trips for each hundred directories, and changes made by fn may
// come too late to be seen by later calls. Memory holds the listings on the current path and some
// ten thousand entries more.
func (c *Client) WalkDir(root string, fn fs.WalkDirFunc) error {
	info, err := privateClient{c}.Look(root)
	if err != nil {
		err = fn(root, nil, err)
	} else {
		top := NewFile(c, root)
		top.remember(info.Sys().(*FileStat))
		err = c.walk(top, fn)
	}
	if err == fs.SkipDir || err == fs.SkipAll {
		return nil
	}
	return err
}

// walkDir is a directory of the tree.
type walkDir struct {
	treewalk.Dir[*File, *walkDir]
	file *File
	key  string // sorts as the walk visits
}

func (c *Client) walk(top *File, fn fs.WalkDirFunc) error {
	w := treewalk.Walk[*File, walkDir, *walkDir]{Whole: true, Through: true,
		List:   c.entriesWithin,
		Below:  func(in *walkDir, f *File) *walkDir { return newWalkDir(in.key, f) },
		Before: func(a, b *walkDir) bool { return a.key < b.key },
		Complete: func(_ *walkDir, entries []*File) (moved func() error) {
			// they differ in the last element only
			slices.SortFunc(entries,
				func(a, b *File) int { return strings.Compare(a.path, b.path) })
			return nil
		},
		Enter: func(d *walkDir, _ []*File) error {
			err := d.Err
			if err == nil || !d.file.IsDir() && c.isFile(d.file.Name()) {
				return nil
			}
			if _, named := errors.AsType[*fs.PathError](err); !named {
				err = &fs.PathError{Op: "readdir", Path: d.file.Name(), Err: err}
			}
			return fn(d.file.Name(), d.file.DirEntry(), err)
		},
		Stopped: func() error { return context.Cause(c.ctx) },
		Crowded: func(err error) bool { return errors.Is(err, ErrSSHFxFailure) },
	}
	w.Each = func(_ *walkDir, f *File, below *walkDir) error {
		if below != nil && !f.IsDir() {
			w.IsEmpty(below) // the listing shows what it is
		}
		return fn(f.Name(), f.DirEntry(), nil)
	}
	w.Begin(c.ctx, c.openHandles())
	defer w.End()
	return w.Visit(nil, top, newWalkDir("", top))
}

// newWalkDir returns nil if f is not a directory. Whatever it is, what can be read neither as a file
// nor as a directory has contents that the walk may lack.
func newWalkDir(above string, f *File) *walkDir {
	if stat := f.FileStat(); stat.HasType() && !f.IsDir() {
		return nil
	}
	return &walkDir{file: f, key: above + path.Base(f.path) + "\x00"}
}

// isFile reports whether what could not be told from a directory is no directory.
func (c *Client) isFile(name string) bool {
	info, err := privateClient{c}.Look(name)
	return err == nil && !info.IsDir() && info.Sys().(*FileStat).HasType()
}

// entriesWithin lists a directory until ctx ends. The entries outlive ctx.
func (c *Client) entriesWithin(ctx context.Context, d *walkDir) iter.Seq2[*File, error] {
	return func(yield func(*File, error) bool) {
		isDir := sync.OnceFunc(func() {
			if stat := d.file.FileStat(); !stat.HasType() {
				stat.Mode |= typeDir
				d.file.remember(stat)
			}
		})
		for f, err := range c.WithContext(ctx).Entries(d.file.Name()) {
			if f != nil {
				isDir()
				f.ctx = c.ctx
			}
			if !yield(f, err) || err != nil {
				return
			}
		}
		isDir()
	}
}

// Walk is [Client.WalkDir] as an iterator over closed Files with their attributes, in lexical
// order, root first. An error comes with the File of the directory it is about, or nil for root,
// and the walk continues after it. If the client's context ends, so does the walk, with the cause
// and nil. Use WalkDir to skip a directory.
func (c *Client) Walk(root string) iter.Seq2[*File, error] {
	return func(yield func(*File, error) bool) {
		err := c.WalkDir(root, func(_ string, d fs.DirEntry, err error) error {
			var f *File
			if d != nil {
				f = d.(dirEntry).file
			}
			if !yield(f, err) {
				return fs.SkipAll
			}
			return nil
		})
		if err != nil {
			yield(nil, err)
		}
	}
}
