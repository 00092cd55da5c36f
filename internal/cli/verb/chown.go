package verb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/cli/ui"
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
	owner, err := j.parseOwner(o.Owner)
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
			text = j.ownerChange(name, &e.stat, owner)
		}
		if owner.uid == nil && owner.gid == nil {
			c.ops.add(func() { j.done("changed", name, text) })
			return
		}
		uid, gid := owner.of(&e.stat)
		chown := j.client.Async().Chown
		if e.isLink() {
			chown = j.client.Async().Lchown
		}
		pending := chown(j.at(name), int(uid), int(gid))
		c.ops.add(func() {
			if _, err := pending.Wait(); err != nil {
				j.fail("change the owner of", name, err)
				return
			}
			j.done("changed", name, text)
		})
	}
	c.run(names)
	return j.end()
}

// A newOwner is what chown sets. A number that is nil stays; user and group are the same in words.
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

// ownerChange returns what chown -v says about a file.
func (j *job) ownerChange(name string, s *usftp.FileStat, to newOwner) string {
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
func (j *job) parseOwner(text string) (o newOwner, err error) {
	user, group, colon := strings.Cut(text, ":")
	o.user, o.group = user, group
	if user != "" {
		uid, err := j.number(user, false)
		if err != nil {
			return o, err
		}
		o.uid = &uid
	}
	switch {
	case group != "":
		gid, err := j.number(group, true)
		if err != nil {
			return o, err
		}
		o.gid = &gid
	case colon && user != "": // the user's own group
		gid, err := j.loginGroup(*o.uid)
		if err != nil {
			return o, err
		}
		o.gid, o.group = &gid, strconv.FormatUint(uint64(gid), 10)
		if tellsOwners(j.client) {
			if _, names, err := ownerNames(j.client, nil, []uint32{gid})(); err == nil &&
				names[0] != "" {
				o.group = names[0]
			}
		}
	}
	return o, nil
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
		return 0, usage("invalid %s number: %s", what, name)
	}
	if !tellsOwners(j.client) {
		return 0, fmt.Errorf("cannot find the %s %s: the server does not report names; use a number", what, name)
	}
	return j.find(what, name, group)
}

// noOwner means "no change" to the system's chown.
const noOwner = 1<<32 - 1

// find searches for a name. The protocol can only translate numbers to names. So find first asks
// about the likely numbers: those that the host's /etc/passwd or /etc/group and this machine have
// for the name. The file may belong to a chroot, and machines differ, so the server has the last
// word. Then find asks about all numbers, but not for long.
func (j *job) find(what, name string, group bool) (uint32, error) {
	file, number := "/etc/passwd", localUser
	if group {
		file, number = "/etc/group", localGroup
	}
	likely := map[string]bool{number(name): true}
	for _, fields := range j.database(file) {
		if fields[0] == name {
			likely[fields[2]] = true
		}
	}
	var ids []uint32
	for number := range likely {
		if n, err := strconv.ParseUint(number, 10, 32); err == nil {
			ids = append(ids, uint32(n))
		}
	}
	if len(ids) > 0 {
		if id, ok, err := j.ask(ids, group).has(name); ok || err != nil {
			return id, err
		}
	}
	id, ok, asked, err := j.search(name, group)
	if ok || err != nil {
		return id, err
	}
	return 0, fmt.Errorf("invalid %s: %s: no number below %d has this name on the host; use a number",
		what, quoted(name), asked)
}

// localUser and localGroup return the numbers that names have on this machine.
func localUser(name string) string {
	if u, err := user.Lookup(name); err == nil {
		return u.Uid
	}
	return ""
}

func localGroup(name string) string {
	if g, err := user.LookupGroup(name); err == nil {
		return g.Gid
	}
	return ""
}

const (
	// highestOwner is the highest number searched for a name. Directory services with higher
	// numbers have too many to try.
	highestOwner = 1 << 16

	// mostSearching is how long a search goes on. Some servers take 200 µs for each number.
	mostSearching = 2 * time.Second

	// searchStep is how many numbers one request asks for, and searchAhead how many requests are
	// in flight.
	searchStep  = 512
	searchAhead = 4
)

// search asks about all numbers, from 0, until the time is up. asked is where it stopped.
func (j *job) search(name string, group bool) (id uint32, ok bool, asked uint32, err error) {
	deadline := j.now().Add(mostSearching)
	var questions []question
	for next := uint32(0); ; {
		for len(questions) < searchAhead && next < highestOwner && j.now().Before(deadline) {
			ids := make([]uint32, searchStep)
			for i := range ids {
				ids[i] = next + uint32(i)
			}
			questions = append(questions, j.ask(ids, group))
			next += searchStep
		}
		if len(questions) == 0 {
			return 0, false, asked, nil
		}
		if id, ok, err = questions[0].has(name); ok || err != nil {
			return id, ok, asked, err
		}
		questions = questions[1:]
		asked += searchStep
	}
}

// A question asks the server for the names of some numbers.
type question struct {
	ids   []uint32
	names func() (users, groups []string, err error)
}

func (j *job) ask(ids []uint32, group bool) question {
	if group {
		return question{ids, ownerNames(j.client, nil, ids)}
	}
	return question{ids, ownerNames(j.client, ids, nil)}
}

// has waits for the answer, and returns the number that has the name.
func (q question) has(name string) (id uint32, ok bool, err error) {
	users, groups, err := q.names()
	for i, found := range append(users, groups...) {
		if found == name {
			return q.ids[i], true, err
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
