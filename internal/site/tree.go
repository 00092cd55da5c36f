package site

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/osfs"
)

// A tree is what is served, with what its users share. It stays open until the program ends, for
// sessions that began before a reload.
type tree struct {
	fs     server.FS
	info   fs.FileInfo // nil unless it is a directory
	quotas map[[2]int64]*server.Quota
}

// tree opens what a root stands for, or returns what is already open.
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
	info, err := os.Stat(root)
	if err == nil && !info.IsDir() {
		err = errors.New("not a directory")
	}
	if err != nil {
		return nil, FileError("cannot serve", root, err)
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

func (s *Site) keep(root string, files server.FS, info fs.FileInfo) *tree {
	if s.trees == nil {
		s.trees = map[string]*tree{}
	}
	t := &tree{fs: files, info: info, quotas: map[[2]int64]*server.Quota{}}
	s.trees[root] = t
	return t
}

// quota returns the quota shared by users of the same root with the same limits.
func (s *Site) quota(t *tree, root string, bounds [2]int64) *server.Quota {
	if t.quotas[bounds] == nil && s.Shared != nil {
		t.quotas[bounds] = server.NewQuotaOf(s.Shared.Account(root, bounds[0], bounds[1]))
	} else if t.quotas[bounds] == nil {
		t.quotas[bounds] = server.NewQuota(bounds[0], bounds[1])
	}
	return t.quotas[bounds]
}

// A rootQuota is a quota with what it limits.
type rootQuota struct {
	*server.Quota
	root string
	fs   server.FS
}

// quotas lists the quotas of all trees.
func (s *Site) quotas() (all []rootQuota) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for root, t := range s.trees {
		for _, q := range t.quotas {
			all = append(all, rootQuota{q, root, t.fs})
		}
	}
	return all
}

// recount counts what lies under quotas again, since others may have changed it.
func (s *Site) recount(ctx context.Context, quotas []rootQuota) {
	for _, q := range quotas {
		if err := q.Recount(ctx, q.fs, "/"); err != nil {
			s.Log.Error("cannot recount a quota", "root", q.root, "error", err)
			continue
		}
		bytes, files := q.Usage()
		s.Log.Info("quota counted", "root", q.root, "bytes", bytes, "files", files)
	}
}
