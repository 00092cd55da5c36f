package objectfs

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"
)

// List implements [server.Lister], page by page: first the stored entries, then the uploads that
// wait under temporary names. An entry stored under the same name hides an upload: STAT describes
// the entry, too.
func (f *FS) List(ctx context.Context, name string) iter.Seq2[fs.FileInfo, error] {
	return sequence(func(yield func(*info) bool) error { return f.list(ctx, f.key(name), yield) })
}

// sequence returns an iterator over the infos that list yields, and list's error.
func sequence(list func(yield func(*info) bool) error) iter.Seq2[fs.FileInfo, error] {
	return func(yield func(fs.FileInfo, error) bool) {
		if err := list(func(i *info) bool { return yield(i, nil) }); err != nil {
			yield(nil, err)
		}
	}
}

// list calls yield for each entry of a directory, until it returns false.
func (f *FS) list(ctx context.Context, key string, yield func(*info) bool) error {
	dir := f.start(key)
	if key != f.prefix {
		if _, err := f.bucket.Head(ctx, key); err == nil {
			return errNotDirectory
		} else if !absent(err) {
			return err
		}
	}
	waiting, err := f.uploads(ctx, dir, false)
	if err != nil {
		return err
	}
	unstored, writing := map[string]bool{}, false
	exists := dir == f.prefix
	for _, i := range waiting {
		unstored[i.name] = true
		writing, exists = writing || i.open, exists || !i.open
	}
	var files shadows
	for page, err := range f.pages(ctx, Query{Prefix: dir, Delimited: true}) {
		if err != nil {
			return err
		}
		exists = exists || len(page.Objects)+len(page.Prefixes) > 0
		if !exists && page.Next == "" {
			return fs.ErrNotExist
		}
		entries, err := f.entries(ctx, dir, page)
		if err != nil {
			return err
		}
		for _, i := range entries {
			if files.hides(i) {
				continue
			}
			if !yield(i) {
				return nil
			}
			delete(unstored, i.name)
		}
	}
	if writing { // one may have been closed since, and the object gone that it replaces
		closed, err := f.uploads(ctx, dir, false)
		if err != nil {
			return err
		}
		waiting = append(waiting, closed...)
	}
	for _, i := range waiting {
		if i.open || !unstored[i.name] {
			continue
		}
		delete(unstored, i.name)
		if !yield(i) {
			return nil
		}
	}
	return nil
}

var errNoProgress = errors.New("the storage repeats the pages of a listing")

// tokens notices that a listing goes in circles: it remembers one token, for twice as long each
// time, so that it finds a circle of any length.
type tokens struct {
	one       string
	age, most int
}

// repeats reports whether the next page was there before.
func (t *tokens) repeats(next string) bool {
	if next != "" && next == t.one {
		return true
	}
	if t.age++; t.age >= t.most {
		t.one, t.age, t.most = next, 0, 2*t.most+1
	}
	return false
}

// pages returns the pages of a listing. Any of them may be empty: some storage gives up looking for
// the next key after a while.
func (f *FS) pages(ctx context.Context, q Query) iter.Seq2[Page, error] {
	return func(yield func(Page, error) bool) {
		for seen := (tokens{}); ; {
			page, err := f.bucket.List(ctx, q)
			if err == nil && seen.repeats(page.Next) {
				err = errNoProgress
			}
			if q.Token = page.Next; !yield(page, err) || err != nil || q.Token == "" {
				return
			}
		}
	}
}

// entries returns the directory entries of a page, in the order of the keys.
func (f *FS) entries(ctx context.Context, dir string, page Page) ([]*info, error) {
	keys := make([]string, len(page.Objects))
	for i, o := range page.Objects {
		keys[i] = o.Key
	}
	times, err := f.state.Times(ctx, keys)
	if err != nil {
		return nil, err
	}
	list := make([]*info, 0, len(page.Objects)+len(page.Prefixes))
	for _, o := range page.Objects {
		if o.Key != dir { // which is the directory's marker
			list = append(list, describe(o, times))
		}
	}
	for _, prefix := range page.Prefixes {
		if prefix != dir+"/" { // keys with two slashes have no path
			list = append(list, directory(prefix))
		}
	}
	slices.SortFunc(list, func(a, b *info) int { return cmp.Compare(a.order(), b.order()) })
	return list, nil
}

// order returns the sort key of an entry, for the order in which the storage lists entries.
func (i *info) order() string {
	if i.dir {
		return i.name + "/"
	}
	return i.name
}

// uploads describes the pending uploads in a directory. Without hidden, it returns uploads under
// temporary names, which clients see unless they are still open; with hidden, the others, which only
// STAT shows, once they are abandoned.
func (f *FS) uploads(ctx context.Context, dir string, hidden bool) (list []*info, err error) {
	pending, err := f.state.Pending(ctx, dir)
	if err != nil {
		return nil, err
	}
	for _, u := range pending {
		if parentOf(u.Name) != dir || hidden != (u.Target == u.Name) || u.Locked && hidden {
			continue
		}
		if u.Locked && !u.Closed {
			list = append(list, &info{name: path.Base(u.Name), open: true})
			continue
		}
		if hidden {
			if _, err := f.findObject(ctx, u.Name); err == nil { // the object has come since
				continue
			} else if !absent(err) {
				return nil, err
			}
		}
		i, err := f.describeUpload(ctx, u)
		if absent(err) { // it has just been completed or aborted
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, i)
	}
	return list, nil
}

// start returns the prefix of the keys in a directory.
func (f *FS) start(key string) string {
	if key == f.prefix {
		return key
	}
	return key + "/"
}

// shadows finds directories hidden by a file of the same name: S3 allows both "a" and "a/b" as
// keys. Between the two there may be many others, "a-1" for example, but all of them begin with
// "a"; so it is enough to remember the files whose names are prefixes of the current name.
type shadows []string

func (s *shadows) hides(i *info) bool {
	for len(*s) > 0 && !strings.HasPrefix(i.name, (*s)[len(*s)-1]) {
		*s = (*s)[:len(*s)-1]
	}
	if !i.dir {
		*s = append(*s, i.name)
		return false
	}
	return slices.Contains(*s, i.name)
}

// below returns the objects whose keys begin with dir, and fails if there are more than most.
func (f *FS) below(ctx context.Context, dir string, most int) (list []Object, err error) {
	for page, err := range f.pages(ctx, Query{Prefix: dir}) {
		if err != nil {
			return nil, err
		}
		if list = append(list, page.Objects...); len(list) > most {
			return nil, errLargeDirectory
		}
	}
	return list, nil
}
