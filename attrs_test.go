package usftp_test

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"testing"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// Servers send the low 32 bits of times before 1970.
func TestTimesBefore1970(t *testing.T) {
	r := newRig(t, sftptest.Script{}, 0)
	r.server.Files.WriteFile("/f", nil)
	mtime, atime := time.Date(1969, 7, 20, 20, 17, 40, 0, time.UTC), time.Unix(-1, 0)
	ok(t, r.server.Files.SetTimes("/f", atime, mtime))
	info := must[fs.FileInfo](t)(r.Stat("/f"))
	stat := info.Sys().(*usftp.FileStat)
	if !info.ModTime().Equal(mtime) || !stat.AccessTime().Equal(atime) ||
		stat.Atime != 1<<32-1 {
		t.Errorf("%v %v %+v", info.ModTime(), stat.AccessTime(), stat)
	}
	ok(t, r.server.Files.SetTimes("/f", atime, time.Date(2090, 1, 1, 0, 0, 0, 0, time.UTC)))
	if info := must[fs.FileInfo](t)(r.Lstat("/f")); info.ModTime().UTC().Year() != 2090 {
		t.Error(info.ModTime())
	}
}

// Apache MINA sets times after January 2038, but then it cannot list the directory any more.
func TestTimesThatCannotBeTold(t *testing.T) {
	r := newRig(t, sftptest.Script{}, 0, usftp.WithServerVersion("SSH-2.0-APACHE-SSHD-2.16.0"))
	r.server.Files.WriteFile("/f", nil)
	f := must[*usftp.File](t)(r.OpenFile("/f", os.O_RDWR, 0))
	last, late := time.Unix(math.MaxInt32, 0), time.Unix(1<<31, 0)
	for what, set := range map[string]func(atime, mtime time.Time) error{
		"path":   func(a, m time.Time) error { return r.Chtimes("/f", a, m) },
		"link":   func(a, m time.Time) error { return r.Lchtimes("/f", a, m) },
		"handle": func(a, m time.Time) error { return f.Chtimes(a, m) },
	} {
		if err := set(last, last); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		for _, err := range []error{set(late, last), set(last, late)} {
			if !errors.Is(err, fs.ErrInvalid) {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	if a := must[fs.FileInfo](t)(r.Stat("/f")); !a.ModTime().Equal(last) {
		t.Error(a.ModTime())
	}
}

func TestSetstatFamily(t *testing.T) {
	r := newRig(t, sftptest.Script{}, 0)
	r.server.Files.WriteFile("/f", []byte("0123456789"))
	when := time.Unix(1_700_000_000, 0)
	ok(t, r.Chmod("/f", 0o600|fs.ModeSetuid))
	ok(t, r.Chown("/f", 7, 8))
	ok(t, r.Truncate("/f", 4))
	ok(t, r.Chtimes("/f", when, when))
	info := must[fs.FileInfo](t)(r.Stat("/f"))
	stat := info.Sys().(*usftp.FileStat)
	if info.Mode() != 0o600|fs.ModeSetuid || stat.UID != 7 || stat.GID != 8 ||
		!info.ModTime().Equal(when) || info.Size() != 4 {
		t.Errorf("%v %+v", info, stat)
	}
	f := must[*usftp.File](t)(r.OpenFile("/f", os.O_RDWR, 0))
	ok(t, f.Chmod(0o640))
	ok(t, f.Chown(9, 10))
	ok(t, f.Truncate(3))
	must[fs.FileInfo](t)(f.Stat())
	if f.Mode() != 0o640 || f.UID() != 9 || f.GID() != 10 || f.Size() != 3 {
		t.Errorf("%v %+v", f.Info(), f.FileStat())
	}
	for what, err := range map[string]error{
		"chown": r.Chown("/f", -1, 0), "chtimes": r.Chtimes("/f", time.Unix(-1, 0),
			when), "truncate": r.Truncate("/f", -1),
		"chtimes late": r.Chtimes("/f", when, time.Unix(1<<32, 0)), "f.truncate": f.Truncate(-1),
	} {
		if !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestTruncateGrows: servers in Java acknowledge a larger size and do nothing.
func TestTruncateGrows(t *testing.T) {
	for _, version := range []string{"SSH-2.0-APACHE-SSHD-2.16.0", "SSH-2.0-MaverickSynergy"} {
		var r *rig
		r = newRig(t, sftptest.Script{Intercept: func(q sftptest.Request) []sftptest.Action {
			if q.Type != wire.TypeSetstat && q.Type != wire.TypeFsetstat {
				return nil
			}
			if data, _ := r.server.Files.ReadFile("/f"); q.Attrs.Size > uint64(len(data)) {
				return []sftptest.Action{sftptest.Refuse(wire.OK, "")}
			}
			return nil
		}}, 0, usftp.WithServerVersion(version))
		for _, flag := range []int{os.O_RDWR, os.O_WRONLY | os.O_APPEND} {
			r.server.Files.WriteFile("/f", []byte("text"))
			f := must[*usftp.File](t)(r.OpenFile("/f", flag, 0))
			for _, size := range []int64{2, 3, 5} {
				ok(t, f.Truncate(size))
			}
			ok(t, f.Close())
			ok(t, r.Truncate("/f", 7))
			want := "te\x00\x00\x00\x00\x00"
			if data, err := r.server.Files.ReadFile("/f"); string(data) != want {
				t.Errorf("%s: the file has %q, %v", version, data, err)
			}
		}
	}
}
