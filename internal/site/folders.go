package site

import (
	"fmt"
	"path"

	"github.com/usftp/usftp/internal/samename"
	"github.com/usftp/usftp/server"
)

// A Folder is a part of the tree that a user sees, with rules of its own.
type Folder struct {
	Path         string // absolute and clean, and not "/"
	Root         string // "" means the files of the folder around it
	Policy       server.Policy
	Quota        [2]int64 // of Root
	RefusedNames []string
}

// Roots returns the roots that a user sees: none if the user exists only to be disabled.
func (a *Account) Roots() (roots []string) {
	if a.Root != "" {
		roots = append(roots, a.Root)
	}
	for _, one := range a.Folders {
		if one.Root != "" {
			roots = append(roots, one.Root)
		}
	}
	return roots
}

// compose opens the folders of a user, and puts them into the tree. The folders' rules then hold,
// and policy keeps only rules for the whole. Unruled is for the operator: only quotas hold. The
// caller holds the lock.
func (s *Site) compose(one *Account, files server.FS, policy *server.Policy,
	unruled bool) (server.FS, error) {
	if len(one.Folders) == 0 && (len(one.RefusedNames) == 0 || unruled) {
		return files, nil
	}
	folders := []server.Folder{{Path: "/", FS: files, Policy: *policy,
		RefusedNames: one.RefusedNames}}
	for _, f := range one.Folders {
		folder := server.Folder{Path: f.Path, Policy: f.Policy, RefusedNames: f.RefusedNames}
		folder.Policy.MaxFileSize = policy.MaxFileSize
		if f.Root != "" {
			t, err := s.treeOf(&f)
			if err != nil {
				return nil, err
			}
			if folder.FS, err = s.guarded(one.Name, f.Path, t.fs); err != nil {
				return nil, err
			}
			if f.Quota != [2]int64{} {
				folder.Policy.Quota = s.quota(t, f.Root, f.Quota)
			}
		}
		folders = append(folders, folder)
	}
	for i := range folders {
		if f := &folders[i]; unruled {
			f.RefusedNames, f.Policy = nil, server.Policy{Quota: f.Policy.Quota}
		}
	}
	*policy = server.Policy{}
	return server.NewFolders(folders...)
}

// treeOf returns the tree at the root of a folder.
func (s *Site) treeOf(f *Folder) (*tree, error) {
	t, err := s.tree(f.Root)
	if err != nil {
		err = unserved{folderRoot{fmt.Errorf("folder %s: %w", f.Path, err)}}
	}
	return t, err
}

// folderRoots returns an error if a folder of a user cannot be served.
func (s *Site) folderRoots(one *Account) error {
	s.opening.Lock()
	defer s.opening.Unlock()
	for _, f := range one.Folders {
		if f.Root == "" {
			continue
		}
		if _, err := s.treeOf(&f); err != nil {
			return err
		}
	}
	return nil
}

// guarded returns the files that a user is to see of a folder's.
func (s *Site) guarded(user, folder string, files server.FS) (server.FS, error) {
	if s.Guard == nil {
		return files, nil
	}
	return s.Guard(user, folder, files)
}

// RootOf returns the root that holds a path of a user, or "", and the path of the folder that has
// this root, or "/".
func (s *Site) RootOf(user, name string) (root, folder string) {
	one, name := s.servedOf(user), path.Clean("/"+name)
	at := Folder{Path: "/", Root: one.Root}
	for _, f := range one.Folders {
		if f.Root != "" && len(f.Path) > len(at.Path) && samename.Within(name, f.Path) {
			at = f
		}
	}
	return at.Root, at.Path
}

// Around returns the nearest folder around a path, or nil.
func Around(folders []Folder, name string) *Folder {
	var nearest *Folder
	for i := range folders {
		if one := &folders[i]; one.Path != name && samename.Within(name, one.Path) &&
			(nearest == nil || len(one.Path) > len(nearest.Path)) {
			nearest = one
		}
	}
	return nearest
}
