package server

import (
	"context"
	"io"
	"io/fs"
	"iter"
	"strconv"
	"time"

	"github.com/usftp/usftp/server/internal/shown"
	"github.com/usftp/usftp/wire"
)

// listing is an open directory.
type listing struct {
	next func() (fs.FileInfo, error, bool)
	stop func()
	dots bool // "." and ".." are listed
	// The entry that did not fit in the last reply, or that OPENDIR has already read.
	entry   fs.FileInfo
	err     error
	pending bool
	done    bool
	// The last entry's owner and group.
	uid, gid    uint32
	user, group string
}

func (w *worker) opendir(ctx context.Context, s *session, r *request) {
	w.giveHandle(s, r, func() (*handle, error) {
		next, stop := iter.Pull2(s.view.listAll(ctx, r.path))
		l := &listing{next: next, stop: stop, dots: s.view.walks}
		if l.peek(); l.err != nil {
			stop()
			return nil, l.err
		}
		return &handle{dir: l, path: r.path, place: r.place}, nil
	})
}

// peek loads the next entry, unless the listing is done. An error ends the listing, and is kept in
// err.
func (l *listing) peek() {
	if l.pending || l.done {
		return
	}
	for {
		info, err, ok := l.next()
		if !ok || err != nil || info == nil {
			l.done, l.err = true, err
			return
		}
		if shown.Name(info.Name()) || l.dots && isDots(info) {
			l.entry, l.pending = info, true
			return
		}
	}
}

const (
	// maxNames limits the length of a NAME: less than the 34000 bytes that draft-02, section 3,
	// requires every client to accept.
	maxNames = 32000

	// maxOwner is the longest owner name that is listed.
	maxOwner = 64
)

// A reply that is one entry past maxNames must still fit into its buffer.
var _ [smallBuffer - maxNames - 3*shown.MaxName]struct{}

// readdir answers READDIR with as many entries as fit, at least one.
func (w *worker) readdir(s *session, r *request) {
	l := r.handle.dir
	if l == nil {
		w.status(s, r, errBadHandle)
		return
	}
	b, count, now := wire.BeginNames(r.reply.Bytes()[:0], r.id), 0, time.Now()
	for {
		l.peek()
		if !l.pending {
			break
		}
		before := len(b)
		if b = w.appendEntry(b, s, l, now); len(b) > maxNames && count > 0 {
			b = b[:before] // leave it for the next reply
			break
		}
		l.entry, l.pending = nil, false
		count++
	}
	switch {
	case count > 0:
		w.send(s, r, wire.FinishNames(b, 0, count))
	case l.err != nil:
		err := l.err
		l.err = nil
		w.status(s, r, err)
	default:
		w.status(s, r, io.EOF)
	}
}

// appendEntry appends the current entry in NAME's format.
func (w *worker) appendEntry(b []byte, s *session, l *listing, now time.Time) []byte {
	attrs := plainAttrs(l.entry)
	if attrs.Has(wire.AttrUIDGID) {
		l.lookUp(s, attrs.UID, attrs.GID)
	}
	long := appendLongName(w.scratch[:0], l.entry.Name(), &attrs, linkCount(l.entry), l.user,
		l.group, now)
	return (&wire.Name{Filename: l.entry.Name(), LongName: string(long), Attrs: attrs}).Append(b)
}

// lookUp finds the names of an entry's owner and group, which are usually those of the previous
// entry.
func (l *listing) lookUp(s *session, uid, gid uint32) {
	if l.user != "" && l.uid == uid && l.gid == gid {
		return
	}
	l.uid, l.gid = uid, gid
	l.user, l.group = strconv.FormatUint(uint64(uid), 10), strconv.FormatUint(uint64(gid), 10)
	users, groups, err := s.view.ownerNames(s.ctx, []uint32{uid}, []uint32{gid})
	if err == nil && len(users) == 1 && users[0] != "" && len(users[0]) <= maxOwner {
		l.user = users[0]
	}
	if err == nil && len(groups) == 1 && groups[0] != "" && len(groups[0]) <= maxOwner {
		l.group = groups[0]
	}
}

// appendLongName appends a line as ls -l prints it: draft-02, section 7, suggests that form, and
// some clients print the line as it is. Widths match OpenSSH's server.
func appendLongName(b []byte, name string, attrs *wire.Attrs, links uint64, user, group string,
	now time.Time) []byte {
	b = appendMode(b, attrs.Permissions)
	b = append(b, ' ')
	b = appendPadded(b, strconv.FormatUint(links, 10), -3)
	b = append(b, ' ')
	b = appendPadded(b, user, 8)
	b = append(b, ' ')
	b = appendPadded(b, group, 8)
	b = append(b, ' ')
	b = appendPadded(b, strconv.FormatUint(attrs.Size, 10), -8)
	b = append(b, ' ')
	mtime := time.Unix(int64(attrs.MTime), 0)
	// ls shows the year instead of the time of day for times more than half a year ago or in the
	// future.
	if age := now.Sub(mtime); age > 365*24*time.Hour/2 || age < -time.Minute {
		b = mtime.AppendFormat(b, "Jan _2  2006")
	} else {
		b = mtime.AppendFormat(b, "Jan _2 15:04")
	}
	b = append(b, ' ')
	return append(b, name...)
}

// appendPadded pads on the right, or on the left if width is negative.
func appendPadded(b []byte, s string, width int) []byte {
	if width < 0 {
		for range -width - len(s) {
			b = append(b, ' ')
		}
		return append(b, s...)
	}
	b = append(b, s...)
	for range width - len(s) {
		b = append(b, ' ')
	}
	return b
}

// appendMode appends the ten letters of ls -l for POSIX mode bits.
func appendMode(b []byte, permissions uint32) []byte {
	const types = "-pc?d?b?-?l?s???" // by the upper four bits of st_mode
	b = append(b, types[permissions>>12&0xf])
	letters := len(b)
	b = append(b, "rwxrwxrwx"...)
	for i := range 9 {
		if permissions&(0o400>>i) == 0 {
			b[letters+i] = '-'
		}
	}
	for i, special := range [...]byte{'s', 's', 't'} {
		x := &b[letters+3*i+2]
		switch {
		case permissions&(0o4000>>i) == 0:
		case *x == '-':
			*x = special - 'a' + 'A'
		default:
			*x = special
		}
	}
	return b
}
