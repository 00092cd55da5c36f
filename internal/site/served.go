package site

import (
	"github.com/usftp/usftp/server"
)

// Served says which files a user may reach.
type Served struct {
	Root    string // of /
	Folders []Folder
	Quota   *server.Quota // of Root; nil if there is none, or none yet
	Limits  [2]int64      // of the quota, in bytes and files; 0 for none
	More    bool          // the user is one of MoreUsers
	Group   string

	// Moved returns the bytes the user sent and fetched in this period, as this server knows.
	Moved func() (up, down server.Usage)

	// Open returns the files the user sees, for the operator: permissions and patterns do not hold,
	// but quotas do. It returns nil for a root that is not made yet.
	Open func() (server.FS, *server.Policy, error)
}

// Roots lists the roots of the directories that the user sees.
func (s *Served) Roots() []string {
	account := Account{Root: s.Root, Folders: s.Folders}
	return account.Roots()
}

// servedTo returns the files that a user, perhaps one of MoreUsers, may reach.
func (s *Site) servedTo(one *Account, more bool) Served {
	served := Served{Root: one.Root, Folders: one.Folders, Quota: s.quotaOf(one),
		Limits: one.Quota, More: more, Group: one.Group}
	served.Moved = func() (up, down server.Usage) { return s.moved(one.Name, one.Transfers) }
	served.Open = func() (server.FS, *server.Policy, error) {
		files, policy, err := s.filesOf(one, true)
		if one.MakeRoot && one.unmade(err) {
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
