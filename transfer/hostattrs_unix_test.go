//go:build unix

package transfer_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// What a host takes arrives, whatever it does not let be set. That is said once for each kind, new
// files have the right permissions where the host takes them from OPEN, and a second sync copies
// nothing.
func TestHostSetsNoAttributes(t *testing.T) {
	const openSSH = "SSH-2.0-OpenSSH_9.6"
	refuse := func(code wire.Code) []sftptest.Action {
		return []sftptest.Action{sftptest.Refuse(code, "not here")}
	}
	for name, test := range map[string]struct {
		path, handle, link []sftptest.Action // the answers to SETSTAT, FSETSTAT and lsetstat
		said               []string
	}{
		"refused by handle": {handle: refuse(wire.OpUnsupported)},
		"refused by path and handle": {path: refuse(wire.PermissionDenied),
			handle: refuse(wire.PermissionDenied)},
		"denied": {path: refuse(wire.PermissionDenied), handle: refuse(wire.PermissionDenied),
			link: refuse(wire.PermissionDenied), said: []string{"permissions", "times"}},
		"unknown": {path: refuse(wire.OpUnsupported), handle: refuse(wire.OpUnsupported),
			link: refuse(wire.OpUnsupported), said: []string{"permissions", "times"}},
		"failed": {path: refuse(wire.Failure), handle: refuse(wire.Failure),
			link: refuse(wire.Failure), said: []string{"permissions", "times"}},
	} {
		for _, known := range []string{openSSH, "SSH-2.0-Other"} {
			t.Run(name+" by "+known, func(t *testing.T) {
				b := newTreeBench(t, sftptest.Script{
					Intercept: func(r sftptest.Request) []sftptest.Action {
						switch {
						case r.Type == wire.TypeSetstat:
							return test.path
						case r.Type == wire.TypeFsetstat:
							return test.handle
						case r.Extension == wire.ExtLsetstat:
							return test.link
						}
						return nil
					}}, sftptest.LinkConfig{})
				login := func() { // which knows nothing of the one before
					b.host = connect(t, b.server.Dial(sftptest.LinkConfig{}),
						usftp.WithServerVersion(known))
				}
				login()
				source := filepath.Join(b.dir, "source")
				fill(t, source, "small", "dir/one", "dir/two", "large")
				large := filepath.Join(source, "large")
				if err := errors.Join(os.WriteFile(large, random(1<<20), 0o644),
					os.Chtimes(large, oldTime, oldTime), os.Chmod(large, 0o640)); err != nil {
					t.Fatal(err)
				}
				check := func(what, target string, s transfer.Summary, err error) {
					t.Helper()
					if err != nil || s.Files != 4 {
						t.Fatalf("%s: %+v, %v", what, s.Totals, err)
					}
					for _, name := range []string{"small", "dir/one", "dir/two", "large"} {
						want, _ := os.ReadFile(filepath.Join(source, name))
						info, _ := os.Stat(filepath.Join(source, name))
						got, err := b.server.Files.ReadFile(target + "/" + name)
						if string(got) != string(want) {
							t.Errorf("%s: %s has %d bytes, %v", what, name, len(got), err)
						}
						attrs, err := b.server.Files.Lstat(target + "/" + name)
						if mode := fs.FileMode(attrs.Permissions & 0o777); mode != info.Mode() {
							t.Errorf("%s: %s has mode %v, want %v, %v", what, name, mode, info.Mode(), err)
						}
					}
					if left := b.temporaries(); len(left) > 0 {
						t.Errorf("%s leaves %q", what, left)
					}
				}
				s, err := b.tree(upload, source, "/copy", func(j *treeJob) { j.Options.Preserve = true })
				check("cp -rp", "/copy", s, err)
				if said := kindsSaid(b.notes()); !slices.Equal(said, test.said) {
					t.Errorf("it says %q, want %q: %q", said, test.said, b.notes())
				}

				j := &syncJob{direction: upload, far: b.host, src: source, dst: "/mirror"}
				s, err = j.run(t)
				check("sync", "/mirror", s, err)
				login()
				j.far = b.host
				copied := len(test.said) > 0 && known == openSSH // which is not asked in advance
				if s, err = j.run(t); err != nil || s.Files != 0 && !copied || s.Files+s.Kept != 4 {
					t.Errorf("the second sync: %+v, %v", s.Totals, err)
				}
			})
		}
	}
}

// kindsSaid returns what the notes say is not set.
func kindsSaid(notes []string) (kinds []string) {
	for _, note := range notes {
		if _, kind, ok := strings.Cut(note, "the host does not set "); ok {
			kind, _, _ = strings.Cut(kind, ":")
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	return kinds
}

// A host that says that it has set times, and has not, is found out: the second sync copies
// nothing.
func TestHostPretendsToSetTimes(t *testing.T) {
	b := newBench(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
		if r.Type == wire.TypeSetstat || r.Type == wire.TypeFsetstat ||
			r.Extension == wire.ExtLsetstat {
			return []sftptest.Action{sftptest.ReplyType(wire.TypeStatus)}
		}
		return nil
	}}, sftptest.LinkConfig{})
	source := filepath.Join(b.dir, "source")
	fill(t, source, "a", "dir/b")
	j := &syncJob{direction: upload, far: b.host, src: source, dst: "/mirror"}
	for run, copied := range []int64{2, 0} {
		if s, err := j.run(t); err != nil || s.Files != copied {
			t.Errorf("run %d: %+v, %v", run, s.Totals, err)
		}
	}
	if said := fmt.Sprint(j.events); !strings.Contains(said, "times are not compared") {
		t.Error("nobody says that times are not compared")
	}
}

// With NoTimes and NoModes nothing is set or compared, and nothing is said, on a host that refuses
// and on this machine.
func TestNoTimesAndNoModes(t *testing.T) {
	for _, direction := range []way{upload, local} {
		for _, changed := range []string{"times", "modes"} {
			t.Run(fmt.Sprint(direction, " ", changed), func(t *testing.T) {
				b := newTreeBench(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
					if r.Type == wire.TypeSetstat || r.Type == wire.TypeFsetstat ||
						r.Extension == wire.ExtLsetstat {
						return []sftptest.Action{sftptest.Refuse(wire.PermissionDenied, "")}
					}
					return nil
				}}, sftptest.LinkConfig{})
				source, target := filepath.Join(b.dir, "source"), "/copy"
				if direction == local {
					target = filepath.Join(b.dir, "copy")
				}
				fill(t, source, "a", "dir/b")
				none := func(a *transfer.Attributes) { a.NoTimes, a.NoModes = true, true }
				s, err := b.tree(direction, source, target, func(j *treeJob) {
					j.Options.Preserve = true
					none(&j.Options.Attributes)
				})
				if err != nil || s.Files != 2 || len(b.notes()) > 0 {
					t.Errorf("cp -rp: %+v, %v, %q", s.Totals, err, b.notes())
				}
				if changed == "modes" {
					if err := os.Chmod(filepath.Join(source, "a"), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				j := &syncJob{direction: direction, far: b.host, src: source, dst: target}
				none(&j.options.Attributes)
				for range 2 {
					if s, err := j.run(t); err != nil || s.Files != 0 || s.Attrs != 0 {
						t.Errorf("sync: %+v, %v", s.Totals, err)
					}
				}
				for _, e := range j.events {
					if e.Kind == transfer.Warning {
						t.Errorf("it says %q", e.Message)
					}
				}
				var mode fs.FileMode
				mtime := oldTime
				if direction == local {
					info, err := os.Stat(filepath.Join(target, "a"))
					if err != nil {
						t.Fatal(err)
					}
					mode, mtime = info.Mode(), info.ModTime()
				} else if attrs, err := b.server.Files.Lstat(target + "/a"); err == nil {
					mode, mtime = fs.FileMode(attrs.Permissions&0o777), time.Unix(int64(attrs.MTime), 0)
				}
				if mode != 0o644 || mtime.Equal(oldTime) {
					t.Errorf("the copy has mode %v and time %v", mode, mtime)
				}
			})
		}
	}
}

// A host that sets attributes of files and not of directories gets files with theirs, also after a
// directory was refused, and into directories that exist. It is said once, and a second sync copies
// nothing.
func TestHostSetsNoAttributesOfDirectories(t *testing.T) {
	for name, answer := range map[string]sftptest.Action{
		"failed": sftptest.Refuse(wire.Failure, "invalid argument"),
		"denied": sftptest.Refuse(wire.PermissionDenied, ""),
	} {
		t.Run(name, func(t *testing.T) {
			var b *bench
			b = newBench(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
				if r.Type != wire.TypeSetstat && r.Extension != wire.ExtLsetstat {
					return nil
				}
				is, err := b.server.Files.Lstat(r.Path)
				if err == nil && wire.FileMode(is.Permissions).IsDir() {
					return []sftptest.Action{answer}
				}
				return nil
			}}, sftptest.LinkConfig{})
			source := filepath.Join(b.dir, "source")
			fill(t, source, "dir/a", "dir/deep/b")
			if err := os.Mkdir(filepath.Join(source, "empty"), 0o755); err != nil {
				t.Fatal(err)
			}
			said := func(what string, events []transfer.Event, err error, want ...string) {
				t.Helper()
				b.events = events
				if said := kindsSaid(b.notes()); err != nil || !slices.Equal(said, want) {
					t.Errorf("%s: %v, it says %q", what, err, b.notes())
				}
				for _, dir := range []string{"/copy", "/mirror"} {
					for _, file := range []string{dir + "/dir/a", dir + "/dir/deep/b"} {
						if is, err := b.server.Files.Lstat(file); err == nil &&
							!time.Unix(int64(is.MTime), 0).Equal(oldTime) {
							t.Errorf("%s: %s has not got its time", what, file)
						}
					}
				}
				if left := b.temporaries(); len(left) > 0 {
					t.Errorf("%s leaves %q", what, left)
				}
			}
			fresh := func() { // a login that knows nothing
				b.host = connect(t, b.server.Dial(sftptest.LinkConfig{}))
			}
			for run := range 2 {
				fresh()
				_, err := b.tree(upload, source, "/copy", func(j *treeJob) {
					j.Options.Preserve, j.Options.NoTargetDirectory = true, true
				})
				said(fmt.Sprint("cp -rp ", run), b.events, err, "times and permissions of directories")
			}
			for run, files := range []int64{2, 0} {
				fresh()
				j := &syncJob{direction: upload, far: b.host, src: source, dst: "/mirror"}
				j.options.Delete = true
				s, err := j.run(t)
				said(fmt.Sprint("sync ", run), j.events, err, "times and permissions of directories")
				if s.Files != files {
					t.Errorf("sync %d: %+v", run, s.Totals)
				}
			}
		})
	}
}

// A host that says that it has set attributes of a file, and has not, is found out by the first
// one, alone or in a tree, and what it replaces keeps its permissions. One that sets them nearly is
// not.
func TestFileToAHostThatPretends(t *testing.T) {
	for name, test := range map[string]struct {
		set  func(b *bench, r sftptest.Request) // what it does set
		said []string
	}{
		"to set anything": {func(*bench, sftptest.Request) {}, []string{"permissions", "times"}},
		"to set times": {func(b *bench, r sftptest.Request) {
			if r.Attrs.Flags&wire.AttrPermissions != 0 {
				b.server.Files.SetMode(r.Path, fs.FileMode(r.Attrs.Permissions&0o777))
			}
		}, []string{"times"}},
		"that it rounds nothing": {func(b *bench, r sftptest.Request) {
			if r.Attrs.Flags&wire.AttrPermissions != 0 {
				b.server.Files.SetMode(r.Path, fs.FileMode(r.Attrs.Permissions&0o755))
			}
			if r.Attrs.Flags&wire.AttrACModTime != 0 {
				b.server.Files.SetModTime(r.Path, time.Unix(int64(r.Attrs.MTime)+1, 0))
			}
		}, nil},
	} {
		for _, tree := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", tree ", tree), func(t *testing.T) {
				var b *bench
				b = newBench(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
					if r.Type != wire.TypeSetstat && r.Type != wire.TypeFsetstat &&
						r.Extension != wire.ExtLsetstat {
						return nil
					}
					test.set(b, r)
					return []sftptest.Action{sftptest.ReplyType(wire.TypeStatus)}
				}}, sftptest.LinkConfig{})
				b.server.Files.WriteFile("/target", []byte("old"))
				b.server.Files.SetMode("/target", 0o640)
				source := b.local("source", []byte("new"))
				if err := errors.Join(os.Chmod(source, 0o664),
					os.Chtimes(source, oldTime, oldTime)); err != nil {
					t.Fatal(err)
				}
				preserve := func(o *transfer.Options) { o.Preserve = true }
				var err error
				if tree {
					dir := filepath.Join(b.dir, "dir")
					if err := errors.Join(os.Mkdir(dir, 0o755),
						os.Rename(source, filepath.Join(dir, "target"))); err != nil {
						t.Fatal(err)
					}
					_, err = b.tree(upload, dir, "/", func(j *treeJob) {
						j.Options.NoTargetDirectory = true
						preserve(&j.Options)
					})
				} else {
					_, err = b.job(upload, source, "/target", func(j *copyJob) { preserve(&j.Options) })
				}
				if said := kindsSaid(b.notes()); err != nil || !slices.Equal(said, test.said) {
					t.Errorf("%v, it says %q, not %q", err, b.notes(), test.said)
				}
				attrs, err := b.server.Files.Lstat("/target")
				want := fs.FileMode(0o644) // as OPEN makes it, or as it is rounded
				if name == "to set times" {
					want = 0o664
				}
				if mode := fs.FileMode(attrs.Permissions & 0o777); err != nil || mode != want {
					t.Errorf("the target has %v, %v", mode, err)
				}
			})
		}
	}
}

// What replaces a file without Preserve keeps its permissions on a host that pretends to set them.
func TestReplacedOnAHostThatPretends(t *testing.T) {
	b := newBench(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
		if r.Type == wire.TypeSetstat || r.Type == wire.TypeFsetstat ||
			r.Extension == wire.ExtLsetstat {
			return []sftptest.Action{sftptest.ReplyType(wire.TypeStatus)}
		}
		return nil
	}}, sftptest.LinkConfig{})
	b.server.Files.WriteFile("/target", []byte("old"))
	b.server.Files.SetMode("/target", 0o640)
	_, err := b.job(upload, b.local("source", []byte("new")), "/target")
	if data := b.remote("/target"); err != nil || string(data) != "new" {
		t.Errorf("%q, %v", data, err)
	}
	if attrs, err := b.server.Files.Lstat("/target"); err != nil ||
		attrs.Permissions&0o777 != 0o640 {
		t.Errorf("the target has mode %o, %v", attrs.Permissions, err)
	}
}

// A copy with Preserve of what has no permissions gets those that the umask leaves it.
func TestPreserveOfWhatHasNoPermissions(t *testing.T) {
	for _, direction := range []way{upload, download, relay, local} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprint(direction, ", stream ", stream), func(t *testing.T) {
				b := newBench(t, sftptest.Script{}, sftptest.LinkConfig{})
				bare := newBench(t, sftptest.Script{HideAttrs: wire.AttrPermissions},
					sftptest.LinkConfig{})
				source := b.local("source", []byte("data"))
				bare.server.Files.WriteFile("/source", []byte("data"))
				if direction == download || direction == relay {
					source = "/source"
				} else if !stream {
					return // this machine tells permissions
				}
				target := "/target"
				if direction == download || direction == local {
					target = filepath.Join(b.dir, "target")
				}
				_, err := b.job(direction, source, target, func(j *copyJob) {
					j.Options.Preserve, j.From = true, bare.host
					if direction == download {
						j.Host = bare.host
					}
					if stream {
						j.Reader = strings.NewReader("data")
					}
				})
				if err != nil {
					t.Fatal(err)
				}
				plain := filepath.Join(b.dir, "plain") // with this process's umask
				if err := os.WriteFile(plain, nil, 0o666); err != nil {
					t.Fatal(err)
				}
				info, err := os.Stat(plain)
				if err != nil {
					t.Fatal(err)
				}
				mode, want := fs.FileMode(0o644), fs.FileMode(0o644)
				if target == "/target" {
					attrs, err := b.server.Files.Lstat("/target")
					if err != nil {
						t.Fatal(err)
					}
					mode = fs.FileMode(attrs.Permissions & 0o777)
				} else if is, err := os.Stat(target); err != nil {
					t.Fatal(err)
				} else {
					mode, want = is.Mode(), info.Mode()
				}
				if mode != want {
					t.Errorf("the copy has %v, not %v", mode, want)
				}
			})
		}
	}
}
