package osfs

import (
	"context"
	"io/fs"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// namesKept limits how long owners' names are cached, and namesMost their number: a client may ask
// for any number.
const (
	namesKept = time.Minute
	namesMost = 1024
)

// names caches owners' names: looking one up may read a file, or ask a directory service.
type names struct {
	mu     sync.Mutex
	since  time.Time
	users  map[uint32]string
	groups map[uint32]string
}

// OwnerNames implements server.OwnerNamer. Only clients of the whole file system are told names;
// others, as under sshd's ChrootDirectory, could ask for each number, and learn all accounts of the
// machine.
func (f *FS) OwnerNames(_ context.Context, uids,
	gids []uint32) (users, groups []string, err error) {
	if !f.tree.isHost() {
		return make([]string, len(uids)), make([]string, len(gids)), nil
	}
	f.names.mu.Lock()
	defer f.names.mu.Unlock()
	n := &f.names
	if n.users == nil || time.Since(n.since) > namesKept || len(n.users)+len(n.groups) > namesMost {
		n.since, n.users, n.groups = time.Now(), map[uint32]string{}, map[uint32]string{}
	}
	for _, id := range uids {
		users = append(users, lookUp(n.users, id, userName))
	}
	for _, id := range gids {
		groups = append(groups, lookUp(n.groups, id, groupName))
	}
	return users, groups, nil
}

// HomeDir implements server.HomeDirer. Clients can see home directories only if the whole file
// system is served.
func (f *FS) HomeDir(_ context.Context, name string) (string, error) {
	if !f.tree.isHost() {
		return "", fs.ErrNotExist
	}
	u, err := user.Lookup(name)
	if err != nil {
		return "", fs.ErrNotExist
	}
	return filepath.ToSlash(u.HomeDir), nil
}

func lookUp(known map[uint32]string, id uint32, find func(string) string) string {
	name, ok := known[id]
	if !ok {
		name = find(strconv.FormatUint(uint64(id), 10))
		known[id] = name
	}
	return name
}

func userName(id string) string {
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return ""
}

func groupName(id string) string {
	if g, err := user.LookupGroupId(id); err == nil {
		return g.Name
	}
	return ""
}
