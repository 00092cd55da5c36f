package site

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/osfs"
)

// A tree is the storage of a root, with the quota whose count its users share. It stays open until
// the program ends, for sessions that began before a reload.
type tree struct {
	fs    server.FS
	info  fs.FileInfo   // nil unless it is a directory
	quota *server.Quota // with some user's limits; nil if nobody has any
}

// tree opens the storage of a root, or returns the tree that is already open.
func (s *Site) tree(root string) (*tree, error) {
	if t := s.trees[root]; t != nil && t.info == nil {
		return t, nil
	}
	if s.Open != nil {
		files, err := s.Open(root)
		if err != nil {
			return nil, fmt.Errorf("cannot serve %s: %w", root, err)
		}
		if files != nil {
			return s.keep(root, files, nil), nil
		}
	}
	info, err := Reach(root)
	if err == nil && !info.IsDir() {
		err = errors.New("not a directory")
	}
	if err != nil {
		return nil, noRoot{FileError("cannot serve", root, err), err}
	}
	if t := s.trees[root]; t != nil && os.SameFile(t.info, info) {
		return t, nil
	}
	serve := osfs.New
	if s.Directory != nil {
		serve = s.Directory
	}
	files, err := serve(root)
	if err != nil {
		return nil, FileError("cannot serve", root, err)
	}
	return s.keep(root, files, info), nil
}

// noRoot is a directory that cannot be served, with the cause that the text puts in plain words.
type noRoot struct {
	error
	cause error
}

func (n noRoot) Unwrap() error { return n.cause }

func (s *Site) keep(root string, files server.FS, info fs.FileInfo) *tree {
	if s.trees == nil {
		s.trees, s.left = map[string]*tree{}, map[string]*server.Quota{}
	}
	t := &tree{fs: files, info: info}
	s.trees[root] = t
	delete(s.left, root)
	return t
}

// unmade reports whether the only problem is that the user's root is missing, not a folder's, which
// is never made.
func (a *Account) unmade(err error) bool {
	return errors.Is(err, fs.ErrNotExist) && !errors.As(err, new(folderRoot))
}

// folderRoot is why the root of a folder cannot be served.
type folderRoot struct{ error }

func (f folderRoot) Unwrap() error { return f.error }

// unserved is why a user's files cannot be opened.
type unserved struct{ error }

func (u unserved) Unwrap() error { return u.error }

// openFor opens the files that a user is to see. If it cannot now, it tries again at each login of
// the user.
//
// At the start strict refuses unusable storage, which is most likely a mistake.
func (s *Site) openFor(one *Account, strict bool) (err error) {
	if s.Check && one.Problem != nil {
		return one.Problem
	}
	if one.SecondFactor {
		one.User.Second = s.Second
	}
	account := *one
	if !account.Admission.Disabled {
		one.FS, one.Policy, err = s.files(&account)
	}
	making := account.MakeRoot && account.Problem == nil && account.unmade(err)
	if making {
		if wrong := s.folderRoots(&account); wrong != nil {
			making, err = false, wrong
		}
	}
	switch {
	case one.FS != nil:
		return nil
	case err == nil, making:
	case !s.Lenient, strict && s.settings == nil && !s.Check && !errors.As(err, new(noRoot)):
		return err
	case s.Check, !errors.As(err, new(unserved)):
		return fmt.Errorf("user %s: %w", one.Name, err)
	default:
		s.Log.Warn("a user cannot log in", "user", one.Name, "error", cmp.Or(one.Problem, err))
	}
	one.FS, one.Open = nil, func() (server.FS, server.Policy, error) {
		if account.MakeRoot {
			if err := s.folderRoots(&account); err != nil {
				return nil, server.Policy{}, err
			}
			if err := makeRoot(account.Root); err != nil {
				return nil, server.Policy{}, err
			}
		}
		return s.files(&account)
	}
	return nil
}

// makeRoot makes a directory, unless it exists. Its parent must exist.
func makeRoot(root string) error {
	if strings.Contains(root, "://") {
		return nil
	}
	err := os.Mkdir(root, 0o750)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return FileError("cannot make the directory", root, err)
	}
	return nil
}

// files opens the files that a user is to see.
func (s *Site) files(one *Account) (files server.FS, policy server.Policy, err error) {
	return s.filesOf(one, false)
}

// filesOf opens files like files; unruled drops the rules, for the operator.
func (s *Site) filesOf(one *Account, unruled bool) (files server.FS, policy server.Policy,
	err error) {
	s.opening.Lock()
	defer s.opening.Unlock()
	t, err := s.tree(one.Root)
	if err != nil {
		return nil, policy, unserved{err}
	}
	policy = one.Policy
	if files, err = s.guarded(one.Name, "/", t.fs); err != nil {
		return nil, policy, err
	}
	if one.Quota != [2]int64{} {
		policy.Quota = s.quota(t, one.Root, one.Quota)
	}
	if files, err = s.compose(one, files, &policy, unruled); err != nil {
		return nil, policy, err
	}
	policy.Uploads, policy.Downloads = s.transfers(one.Name, one.Transfers)
	return files, policy, nil
}

// quota returns the quota of a root with these limits. All quotas of a root share its count.
func (s *Site) quota(t *tree, root string, limits [2]int64) *server.Quota {
	switch {
	case t.quota != nil:
	case s.Shared != nil:
		t.quota = server.NewQuotaOf(s.Shared.Account(root, limits[0], limits[1]))
	default:
		t.quota = server.NewQuota(limits[0], limits[1])
	}
	return t.quota.WithLimits(limits[0], limits[1])
}

// Quotas returns a quota of a root that is open, or was, if there is any.
func (s *Site) Quotas(root string) []*server.Quota {
	s.opening.Lock()
	defer s.opening.Unlock()
	q := s.left[root]
	if t := s.trees[root]; t != nil {
		q = t.quota
	}
	if q == nil {
		return nil
	}
	return []*server.Quota{q}
}

// A rootQuota is a quota, and the root that it limits.
type rootQuota struct {
	*server.Quota
	root string
	fs   server.FS
}

// quotas lists a quota of each tree that has any.
func (s *Site) quotas() (all []rootQuota) {
	s.opening.Lock()
	defer s.opening.Unlock()
	for root, t := range s.trees {
		if t.quota != nil {
			all = append(all, rootQuota{t.quota, root, t.fs})
		}
	}
	return all
}

// A quota that cannot be recounted, since the count or the files are away, is tried again after a
// while, which doubles: writers may have to wait each time.
const recountWait, longestRecountWait = 5 * time.Second, time.Hour

// recount counts the files under quotas again, since others may have changed them. Once newer is
// closed it does not try again.
func (s *Site) recount(ctx context.Context, newer <-chan struct{}, quotas []rootQuota) {
	for wait := recountWait; ; wait = min(2*wait, longestRecountWait) {
		var failed []rootQuota
		for _, q := range quotas {
			if err := q.Recount(ctx, q.fs, "/"); err != nil {
				failed = append(failed, q)
				if wait == recountWait && ctx.Err() == nil {
					s.Log.Error("cannot recount a quota; it is tried again", "root", q.root, "error", err)
				}
				continue
			}
			bytes, files := q.Usage()
			s.Log.Info("quota counted", "root", q.root, "bytes", bytes, "files", files)
		}
		if quotas = failed; len(quotas) == 0 {
			return
		}
		select {
		case <-time.After(wait):
		case <-newer:
			return
		case <-ctx.Done():
			return
		}
	}
}
