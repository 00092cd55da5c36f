package verb

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/endpoint"
)

// TouchOptions are the options of touch.
type TouchOptions struct {
	NoCreate bool      // -c
	Access   bool      // -a: only the access time
	Modify   bool      // -m: only the modification time
	Time     time.Time // zero means now, by this machine's clock
}

// Touch implements touch: it creates missing files, and sets times. Times are whole seconds, and
// "now" is this machine's time: SFTP cannot use the server's.
func Touch(ctx context.Context, env *Env, o TouchOptions, names []string) error {
	j := env.begin(ctx)
	t := o.Time
	if t.IsZero() {
		t = j.now()
	}
	run := func(name string) *opened { return &opened{err: touch(j, o, name, t)} }
	inTurn(j, names, run, func(name string, r *opened) {
		switch {
		case r.err == errNotMade:
		case r.err != nil:
			j.fail("touch", name, whyMissing(j, name, r.err))
		default:
			j.done("touched", name, "", "touched "+j.quoted(name))
		}
	})
	return j.end()
}

// errNotMade says that a file does not exist and is not to be created.
var errNotMade = errors.New("it does not exist")

// touch sets the times of a file, and creates it if it is missing.
func touch(j *job, o TouchOptions, name string, t time.Time) error {
	at := j.at(name)
	atime, mtime := t, t
	info, err := j.client.Stat(at)
	switch {
	case errors.Is(err, fs.ErrNotExist) && o.NoCreate:
		return errNotMade
	case errors.Is(err, fs.ErrNotExist) && strings.HasSuffix(name, "/"):
		return err // a directory, which touch does not make
	case errors.Is(err, fs.ErrNotExist):
		f, err := j.client.OpenFile(at, os.O_WRONLY|os.O_CREATE, 0o666)
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
		if o.Time.IsZero() && o.Access == o.Modify {
			return nil // the server has set the time by its own clock
		}
		info, err = j.client.Stat(at)
		if err != nil {
			return err
		}
	case err != nil:
		return err
	}
	stat := statOf(info)
	if o.Access != o.Modify {
		if !stat.HasTimes() {
			return errors.New("the server does not report its times, and SFTP sets both together")
		}
		if o.Access {
			mtime = stat.ModTime()
		} else {
			atime = stat.AccessTime()
		}
	}
	if err := j.client.Chtimes(at, atime, mtime); err != nil {
		return err
	}
	return pretends(j.client, at, func(is usftp.FileStat) bool {
		return is.HasTimes() && endpoint.Apart(is.ModTime(), mtime) > 3*time.Second // FAT counts in 2 s
	})
}

// ParseDate parses the common formats of touch -d: RFC 3339, "2006-01-02 15:04:05" and shorter
// forms, and "@" with seconds since 1970.
func ParseDate(text string) (time.Time, error) {
	if seconds, ok := strings.CutPrefix(text, "@"); ok {
		n, err := strconv.ParseInt(seconds, 10, 64)
		if err != nil {
			return time.Time{}, errDate(text)
		}
		return time.Unix(n, 0), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05 -0700",
		time.DateTime, "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02T15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, errDate(text)
}

func errDate(text string) error {
	return usage("invalid date %q: use 2006-01-02, 2006-01-02 15:04:05, RFC 3339 or @seconds", text)
}

// ParseStamp parses a date in the format of touch -t: [[CC]YY]MMDDhhmm[.ss].
func ParseStamp(text string, now time.Time) (time.Time, error) {
	digits, seconds, dotted := strings.Cut(text, ".")
	switch len(digits) {
	case 8:
		digits = strconv.Itoa(now.Year()) + digits
	case 10: // as in POSIX: 69 to 99 are in the last century
		if digits[:2] >= "69" {
			digits = "19" + digits
		} else {
			digits = "20" + digits
		}
	case 12:
	default:
		digits = ""
	}
	if !dotted {
		seconds = "00"
	}
	t, err := time.ParseInLocation("20060102150405", digits+seconds, time.Local)
	if err != nil || len(seconds) != 2 {
		return time.Time{}, usage("invalid date %q: must be [[CC]YY]MMDDhhmm[.ss]", text)
	}
	return t, nil
}
