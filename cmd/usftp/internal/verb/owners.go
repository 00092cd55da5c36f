package verb

import (
	"context"
	"slices"
	"strconv"
	"sync"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/wire"
)

// owners knows the names of users and groups by number, if the server translates them
// (users-groups-by-id@openssh.com; OpenSSH PROTOCOL, section 4.12). Its methods may be called from
// several goroutines.
type owners struct {
	mu            sync.Mutex
	users, groups map[uint32]string // "" if the server knows no name
}

func newOwners() *owners {
	return &owners{users: make(map[uint32]string), groups: make(map[uint32]string)}
}

// mostOwners limits the names kept: a server may send new numbers forever.
const mostOwners = 100_000

// learn asks for the unknown names of the entries' owners: one round trip, or none.
func (o *owners) learn(ctx context.Context, client *usftp.Client, entries []*entry) {
	if !tellsOwners(client) {
		return
	}
	users, groups := o.unknown(entries)
	for len(users)+len(groups) > 0 {
		u, g := users[:min(len(users), mostAsked)], groups[:min(len(groups), mostAsked)]
		users, groups = users[len(u):], groups[len(g):]
		userNames, groupNames, err := client.WithContext(ctx).UsersGroups(u, g)
		if err != nil {
			return // numbers will do
		}
		o.mu.Lock()
		for i, id := range u {
			o.users[id] = userNames[i]
		}
		for i, id := range g {
			o.groups[id] = groupNames[i]
		}
		o.mu.Unlock()
	}
}

// mostAsked is how many numbers one request asks for.
const mostAsked = 1024

func tellsOwners(client *usftp.Client) bool {
	version, _ := client.HasExtension(wire.ExtUsersGroupsByID)
	return version == "1"
}

// unknown returns the entries' owners whose names are not known.
func (o *owners) unknown(entries []*entry) (users, groups []uint32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range entries {
		if !e.stat.HasOwner() {
			continue
		}
		if _, known := o.users[e.stat.UID]; !known && len(o.users) < mostOwners {
			users = append(users, e.stat.UID)
		}
		if _, known := o.groups[e.stat.GID]; !known && len(o.groups) < mostOwners {
			groups = append(groups, e.stat.GID)
		}
	}
	slices.Sort(users)
	slices.Sort(groups)
	return slices.Compact(users), slices.Compact(groups)
}

// known returns the names of a user and a group, "" if unknown.
func (o *owners) known(uid, gid uint32) (user, group string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.users[uid], o.groups[gid]
}

// asked reports whether the server was asked for the name of a file's user or group.
func (o *owners) asked(s *usftp.FileStat, group bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	names, id := o.users, s.UID
	if group {
		names, id = o.groups, s.GID
	}
	_, asked := names[id]
	return asked
}

// of returns a file's owner and group as ls prints them: names, otherwise numbers, otherwise "?".
func (o *owners) of(s *usftp.FileStat, numeric bool) (user, group string) {
	if !s.HasOwner() {
		return "?", "?"
	}
	if !numeric {
		user, group = o.known(s.UID, s.GID)
	}
	if user == "" {
		user = strconv.FormatUint(uint64(s.UID), 10)
	}
	if group == "" {
		group = strconv.FormatUint(uint64(s.GID), 10)
	}
	return user, group
}
