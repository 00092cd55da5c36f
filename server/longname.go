package server

import (
	"strconv"
	"time"

	"github.com/usftp/usftp/wire"
)

// appendLongName appends a line as of ls -l: draft-02, section 7, shows it, and people see it in
// clients that print what they are sent. Widths are those of OpenSSH's server.
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
	// ls shows the year instead of the time of day for what is older than half a year, or in the
	// future.
	if age := now.Sub(mtime); age > 365*24*time.Hour/2 || age < -time.Minute {
		b = mtime.AppendFormat(b, "Jan _2  2006")
	} else {
		b = mtime.AppendFormat(b, "Jan _2 15:04")
	}
	b = append(b, ' ')
	return append(b, name...)
}

// appendPadded pads on the right, or for a negative width on the left.
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
	const types = "?pc?d?b?-?l?s???" // by the upper four bits of st_mode
	letter := types[permissions>>12&0xf]
	if permissions>>12&0xf == 0 {
		letter = '-'
	}
	b = append(b, letter)
	for shift, special := range [...]uint32{0o4000, 0o2000, 0o1000} {
		bits := permissions >> (6 - 3*shift) & 7
		b = append(b, pick(bits&4 != 0, 'r'), pick(bits&2 != 0, 'w'))
		execute := pick(bits&1 != 0, 'x')
		if permissions&special != 0 {
			execute = specialLetter(shift == 2, bits&1 != 0)
		}
		b = append(b, execute)
	}
	return b
}

func pick(set bool, letter byte) byte {
	if set {
		return letter
	}
	return '-'
}

func specialLetter(sticky, execute bool) byte {
	switch {
	case sticky && execute:
		return 't'
	case sticky:
		return 'T'
	case execute:
		return 's'
	}
	return 'S'
}
