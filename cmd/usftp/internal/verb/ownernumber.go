package verb

import (
	"bytes"
	"fmt"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/usftp/usftp"
)

// A numberSearch finds the number of a user or group on the host. The protocol can only translate
// numbers to names. So a search first asks about the likely numbers: those that the host's
// /etc/passwd or /etc/group and this machine have for the name. The file may belong to a chroot,
// and machines differ, so the server has the last word. Then the search asks about all numbers,
// within a time limit.
type numberSearch struct {
	client *usftp.Client
	now    func() time.Time
	what   string // "user" or "group"
}

// noOwner means "no change" to the system's chown.
const noOwner = 1<<32 - 1

// parse returns the number of a user or group given by number or by name.
func (s *numberSearch) parse(text string) (uint32, error) {
	digits, plain := strings.CutPrefix(text, "+") // never a name
	n, err := strconv.ParseUint(digits, 10, 32)
	switch {
	case err == nil && n != noOwner:
		return uint32(n), nil
	case err == nil || plain:
		return 0, usage("invalid %s number: %s", s.what, text)
	case !tellsOwners(s.client):
		return 0, fmt.Errorf("cannot find the %s %s: the server does not report names; use a number",
			s.what, text)
	}
	return s.find(text)
}

// find returns the number that has a name.
func (s *numberSearch) find(name string) (uint32, error) {
	if ids := s.likely(name); len(ids) > 0 {
		if id, ok, err := s.ask(ids)(name); ok || err != nil {
			return id, err
		}
	}
	id, ok, asked, err := s.tryAll(name)
	if ok || err != nil {
		return id, err
	}
	return 0, fmt.Errorf("invalid %s: %s: no number below %d has this name on the host; use a number",
		s.what, quoted(name), asked)
}

// likely returns the numbers that a name has on this machine and in the host's file.
func (s *numberSearch) likely(name string) (ids []uint32) {
	file, local := "/etc/group", ""
	if s.what == "user" {
		file = "/etc/passwd"
		if u, err := user.Lookup(name); err == nil {
			local = u.Uid
		}
	} else if g, err := user.LookupGroup(name); err == nil {
		local = g.Gid
	}
	likely := map[string]bool{local: true}
	for _, fields := range readAccounts(s.client, file) {
		if fields[0] == name {
			likely[fields[2]] = true
		}
	}
	for number := range likely {
		if n, err := strconv.ParseUint(number, 10, 32); err == nil {
			ids = append(ids, uint32(n))
		}
	}
	return ids
}

const (
	// highestOwner is the highest number searched for a name. Directory services with higher numbers
	// have too many to try.
	highestOwner = 1 << 16

	// mostSearching limits the time of a search. Some servers take 200 µs for each number.
	mostSearching = 2 * time.Second

	// searchStep is the number of numbers that one request asks for, and searchAhead the number of
	// requests in flight.
	searchStep  = 512
	searchAhead = 4
)

// tryAll asks about all numbers, from 0, until the time is up. It stopped before asked.
func (s *numberSearch) tryAll(name string) (id uint32, ok bool, asked uint32, err error) {
	deadline := s.now().Add(mostSearching)
	var answers []answer
	for next := uint32(0); ; {
		for len(answers) < searchAhead && next < highestOwner && s.now().Before(deadline) {
			ids := make([]uint32, searchStep)
			for i := range ids {
				ids[i] = next + uint32(i)
			}
			answers = append(answers, s.ask(ids))
			next += searchStep
		}
		if len(answers) == 0 {
			return 0, false, asked, nil
		}
		if id, ok, err = answers[0](name); ok || err != nil {
			return id, ok, asked, err
		}
		answers = answers[1:]
		asked += searchStep
	}
}

// An answer waits for the names of some numbers, and returns the number that has the name.
type answer func(name string) (id uint32, ok bool, err error)

// ask asks the server for the names of some numbers.
func (s *numberSearch) ask(ids []uint32) answer {
	uids, gids := ids, []uint32(nil)
	if s.what == "group" {
		uids, gids = nil, ids
	}
	var names []string
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		var users, groups []string
		users, groups, err = s.client.UsersGroups(uids, gids)
		names = append(users, groups...)
	}()
	return func(name string) (uint32, bool, error) {
		<-done
		if i := slices.Index(names, name); i >= 0 {
			return ids[i], true, err
		}
		return 0, false, err
	}
}

// mostAccounts limits the bytes read of /etc/passwd.
const mostAccounts = 1 << 20

// readAccounts returns the lines with at least four fields of a file such as /etc/passwd; none if
// the file cannot be read.
func readAccounts(client *usftp.Client, file string) (lines [][]string) {
	f, err := client.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	data := make([]byte, mostAccounts)
	n, _ := f.ReadAt(data, 0)
	for line := range bytes.Lines(data[:n]) {
		if fields := strings.Split(strings.TrimSpace(string(line)), ":"); len(fields) >= 4 {
			lines = append(lines, fields)
		}
	}
	return lines
}

// loginGroup returns a user's group, which only /etc/passwd contains.
func loginGroup(client *usftp.Client, uid uint32) (uint32, error) {
	for _, fields := range readAccounts(client, "/etc/passwd") {
		if fields[2] == strconv.FormatUint(uint64(uid), 10) {
			if gid, err := strconv.ParseUint(fields[3], 10, 32); err == nil {
				return uint32(gid), nil
			}
		}
	}
	return 0, fmt.Errorf("cannot find the group of user %d on the host: name a group", uid)
}
