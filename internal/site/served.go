package site

import (
	"errors"
	"io/fs"

	"github.com/usftp/usftp/server"
)

// Served is what a user may reach.
type Served struct {
	Root    string // of /
	Folders []Folder
	Quota   *server.Quota // of Root; nil is none, or none yet
	Limits  [2]int64      // of the quota, in bytes and files; 0 is none
	More    bool          // the user is one of MoreUsers
	Group   string

	// Open returns what the user sees, for the operator: no permissions and patterns hold, but
	// quotas do. It returns nil for a root that is still to be made.
	Open func() (server.FS, *server.Policy, error)
}

// servedTo returns what a user, who may be one of MoreUsers, may reach.
func (s *Site) servedTo(one *Account, more bool) Served {
	served := Served{Root: one.Root, Folders: one.Folders, Quota: s.quotaOf(one),
		Limits: one.Quota, More: more, Group: one.Group}
	served.Open = func() (server.FS, *server.Policy, error) {
		files, policy, err := s.filesOf(one, true)
		if one.MakeRoot && errors.Is(err, fs.ErrNotExist) {
			return nil, nil, nil
		}
		return files, &server.Policy{User: one.Name, Quota: policy.Quota}, err
	}
	return served
}

// quotaOf returns the quota of a root that is open, or nil.
func (s *Site) quotaOf(one *Account) *server.Quota {
	s.opening.Lock()
	defer s.opening.Unlock()
	if t := s.trees[one.Root]; t != nil && one.Quota != [2]int64{} {
		return s.quota(t, one.Root, one.Quota)
	}
	return nil
}
