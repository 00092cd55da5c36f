package verb

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/ui"
)

// ChangeOwnerOptions are the options of chown.
type ChangeOwnerOptions struct {
	Recursive bool
	Owner     string // "user", "user:group", ":group" or "user:"; names or numbers
	NoFollow  bool   // -h: change links themselves
}

// ChangeOwner implements chown. SFTP changes owners by number. Names can be used if the server
// translates numbers to names (users-groups-by-id@openssh.com): see [numberSearch].
func ChangeOwner(ctx context.Context, env *Env, o ChangeOwnerOptions, names []string) error {
	j := env.begin(ctx)
	owner, err := parseOwner(j, o.Owner)
	if err != nil {
		if j.over() || errors.As(err, new(*usftp.LostError)) {
			j.err = err
			return j.end()
		}
		if j.Host != "" && !errors.As(err, new(*ui.UsageError)) {
			err = fmt.Errorf("%s: %w", j.Host, err)
		}
		return err
	}
	c := &changer{job: j, recursive: o.Recursive, follow: followAlways,
		owners: j.Verbose && !j.JSON}
	if o.NoFollow || o.Recursive { // as in GNU's chown
		c.follow = followNever
	}
	c.change = func(e *entry, name string) {
		if (owner.uid == nil) != (owner.gid == nil) && !e.stat.HasOwner() {
			j.fail("change the owner of", name,
				errors.New("the server does not report its owner, and SFTP sets owner and group together"))
			return
		}
		text := ""
		if c.owners {
			text = ownerChange(j, name, &e.stat, owner)
		}
		if owner.uid == nil && owner.gid == nil {
			c.ops.add(func() { j.done("changed", name, "", text) })
			return
		}
		uid, gid := owner.of(&e.stat)
		async := j.clientFor(c.in, c.below).Async()
		chown := async.Chown
		if e.isLink() {
			chown = async.Lchown
		}
		pending := chown(j.at(name), int(uid), int(gid))
		c.ops.add(func() {
			if _, err := pending.Wait(); err != nil {
				j.fail("change the owner of", name, err)
				return
			}
			j.done("changed", name, "", text)
		})
	}
	c.run(names)
	return j.end()
}

// A newOwner is an owner to set. A nil number stays; user and group are the same in words.
type newOwner struct {
	uid, gid    *uint32
	user, group string
}

// of returns the numbers for a file.
func (o newOwner) of(s *usftp.FileStat) (uid, gid uint32) {
	uid, gid = s.UID, s.GID
	if o.uid != nil {
		uid = *o.uid
	}
	if o.gid != nil {
		gid = *o.gid
	}
	return uid, gid
}

// ownerChange returns the line of chown -v about a file.
func ownerChange(j *job, name string, s *usftp.FileStat, to newOwner) string {
	what, user, group := "ownership", "", ""
	if oldUser, oldGroup := j.names.of(s, false); to.uid != nil {
		user = oldUser
		if to.gid != nil {
			group = ":" + oldGroup
		}
	} else if to.gid != nil {
		what, group = "group", oldGroup
	}
	was := ui.Printable(user + group)
	uid, gid := to.of(s)
	switch {
	case was == "":
		return "ownership of " + j.quoted(name) + " retained"
	case s.HasOwner() && uid == s.UID && gid == s.GID:
		return what + " of " + j.quoted(name) + " retained as " + was
	case to.uid != nil && to.gid != nil:
		to.user += ":"
	}
	return "changed " + what + " of " + j.quoted(name) + " from " + was + " to " +
		ui.Printable(to.user+to.group)
}

// parseOwner parses an owner, of which either part may be missing, or both.
func parseOwner(j *job, text string) (o newOwner, err error) {
	user, group, colon := strings.Cut(text, ":")
	o.user, o.group = user, group
	search := &numberSearch{client: j.client, now: j.now}
	if user != "" {
		search.what = "user"
		uid, err := search.parse(user)
		if err != nil {
			return o, err
		}
		o.uid = &uid
	}
	switch {
	case group != "":
		search.what = "group"
		gid, err := search.parse(group)
		if err != nil {
			return o, err
		}
		o.gid = &gid
	case colon && user != "": // the user's own group
		gid, err := loginGroup(j.client, *o.uid)
		if err != nil {
			return o, err
		}
		o.gid, o.group = &gid, strconv.FormatUint(uint64(gid), 10)
		if tellsOwners(j.client) {
			if _, names, err := j.client.UsersGroups(nil, []uint32{gid}); err == nil &&
				names[0] != "" {
				o.group = names[0]
			}
		}
	}
	return o, nil
}
