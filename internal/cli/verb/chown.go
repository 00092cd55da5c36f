package verb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/usftp/usftp"
)

// ChangeOwnerOptions are the options of chown.
type ChangeOwnerOptions struct {
	Recursive bool
	Owner     string // "user", "user:group", ":group" or "user:"; names or numbers
	NoFollow  bool   // -h: change links themselves
}

// ChangeOwner is chown. SFTP changes owners by number. Names can be used if the server translates
// numbers to names (users-groups-by-id@openssh.com): see [job.find].
func ChangeOwner(ctx context.Context, env *Env, o ChangeOwnerOptions, names []string) error {
	j := env.begin(ctx, "chown")
	uid, gid, err := j.parseOwner(o.Owner)
	if err != nil {
		if j.over() || errors.As(err, new(*usftp.LostError)) {
			j.err = err
			return j.end()
		}
		return &UsageError{err}
	}
	c := &changer{job: j, recursive: o.Recursive, follow: followAlways}
	if o.NoFollow || o.Recursive { // as in GNU's chown
		c.follow = followNever
	}
	c.change = func(e *entry, name string) {
		to := [2]uint32{e.stat.UID, e.stat.GID}
		if (uid == nil || gid == nil) && !e.stat.HasOwner() {
			j.fail("change the owner of", name, errors.New("the server does not report its owner, and SFTP sets owner and group together"))
			return
		}
		if uid != nil {
			to[0] = *uid
		}
		if gid != nil {
			to[1] = *gid
		}
		chown := j.client.Async().Chown
		if e.isLink() {
			chown = j.client.Async().Lchown
		}
		pending := chown(j.at(name), int(to[0]), int(to[1]))
		c.ops.add(func() {
			if _, err := pending.Wait(); err != nil {
				j.fail("change the owner of", name, err)
				return
			}
			j.done("changed", name, fmt.Sprintf("owner of %s changed from %d:%d to %d:%d",
				j.Prefix+name, e.stat.UID, e.stat.GID, to[0], to[1]))
		})
	}
	c.run(names)
	return j.end()
}

// parseOwner parses an owner; nil means no change.
func (j *job) parseOwner(text string) (uid, gid *uint32, err error) {
	user, group, colon := strings.Cut(text, ":")
	if user == "" && group == "" {
		return nil, nil, errors.New("no owner and no group is named")
	}
	login := colon && group == "" // the user's own group
	if user != "" {
		u, err := j.number(user, false)
		if err != nil {
			return nil, nil, err
		}
		uid = &u
	}
	switch {
	case login:
		g, err := j.loginGroup(*uid)
		if err != nil {
			return nil, nil, err
		}
		gid = &g
	case group != "":
		g, err := j.number(group, true)
		if err != nil {
			return nil, nil, err
		}
		gid = &g
	}
	return uid, gid, nil
}

// number returns the number of a user or group.
func (j *job) number(name string, group bool) (uint32, error) {
	what := "user"
	if group {
		what = "group"
	}
	digits, plain := strings.CutPrefix(name, "+") // never a name
	n, err := strconv.ParseUint(digits, 10, 32)
	switch {
	case err == nil && n != noOwner:
		return uint32(n), nil
	case err == nil || plain:
		return 0, fmt.Errorf("invalid %s number: %s", what, name)
	}
	if !tellsOwners(j.client) {
		return 0, fmt.Errorf("cannot find the %s %s: the server does not report names; use a number", what, name)
	}
	return j.find(what, name, group)
}

// noOwner means "no change" to the system's chown.
const noOwner = 1<<32 - 1

// highestOwner is the highest number searched for a name. Directory services with higher numbers
// have too many to try.
const highestOwner = 1 << 16

// find searches for a name. The protocol can only translate numbers to names, so find first tries
// the numbers in /etc/passwd or /etc/group, if they can be read: since these may belong to a
// chroot, the server has the last word. Then it tries all numbers of local users.
func (j *job) find(what, name string, group bool) (uint32, error) {
	file := "/etc/passwd"
	if group {
		file = "/etc/group"
	}
	likely := map[uint32]bool{}
	for _, fields := range j.database(file) {
		if n, err := strconv.ParseUint(fields[2], 10, 32); err == nil && fields[0] == name {
			likely[uint32(n)] = true
		}
	}
	var ids []uint32
	for id := range likely {
		ids = append(ids, id)
	}
	if id, ok, err := j.ask(ids, name, group); ok || err != nil {
		return id, err
	}
	for from := uint32(0); from < highestOwner; from += mostAsked {
		ids = ids[:0]
		for id := from; id < from+mostAsked; id++ {
			ids = append(ids, id)
		}
		if id, ok, err := j.ask(ids, name, group); ok || err != nil {
			return id, err
		}
	}
	return 0, fmt.Errorf("there is no %s %s on the host with a number below %d; use a number", what, name, highestOwner)
}

// ask asks the server whether one of the numbers has the name.
func (j *job) ask(ids []uint32, name string, group bool) (id uint32, ok bool, err error) {
	if len(ids) == 0 {
		return 0, false, nil
	}
	users, groups := ids, []uint32(nil)
	if group {
		users, groups = nil, ids
	}
	userNames, groupNames, err := ownerNames(j.client, users, groups)
	for i, found := range append(userNames, groupNames...) {
		if found == name {
			return ids[i], true, err
		}
	}
	return 0, false, err
}

// mostDatabase limits how much of /etc/passwd is read.
const mostDatabase = 1 << 20

// database returns the lines with at least four fields of a file such as /etc/passwd; none if it
// cannot be read.
func (j *job) database(file string) (lines [][]string) {
	f, err := j.client.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	data := make([]byte, mostDatabase)
	n, _ := f.ReadAt(data, 0)
	for line := range bytes.Lines(data[:n]) {
		if fields := strings.Split(strings.TrimSpace(string(line)), ":"); len(fields) >= 4 {
			lines = append(lines, fields)
		}
	}
	return lines
}

// loginGroup returns a user's group, which only /etc/passwd contains.
func (j *job) loginGroup(uid uint32) (uint32, error) {
	for _, fields := range j.database("/etc/passwd") {
		if fields[2] == strconv.FormatUint(uint64(uid), 10) {
			if gid, err := strconv.ParseUint(fields[3], 10, 32); err == nil {
				return uint32(gid), nil
			}
		}
	}
	return 0, fmt.Errorf("cannot find the group of user %d on the host: name a group", uid)
}
