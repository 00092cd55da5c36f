package transfer_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"

	"github.com/usftp/usftp/checksum"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// reticent is how a host answers questions about what it has.
type reticent struct {
	asked   []wire.Type
	answer  sftptest.Action
	missing bool // it answers so only if nothing is there
	others  []wire.Type
}

// bench returns a bench with a host whose home is /in, besides which there is /file.
func (r reticent) bench(t *testing.T) (b *bench) {
	b = newBench(t, sftptest.Script{Home: "/in", Intercept: func(q sftptest.Request) []sftptest.Action {
		switch {
		case slices.Contains(r.others, q.Type), slices.Contains(r.others, wire.TypeRename) &&
			q.Extension == wire.ExtPosixRename:
			return []sftptest.Action{sftptest.Refuse(wire.PermissionDenied, "")}
		case slices.Contains(r.asked, q.Type) && !(r.missing && b.server.Files.Exists(q.Path)):
			return []sftptest.Action{r.answer}
		}
		return nil
	}}, sftptest.LinkConfig{})
	return b
}

// Drop boxes take files and do not say what they have. Some servers answer FAILURE, or even OK,
// when asked about a name that does not exist.
func TestUploadsToAHostThatDoesNotTell(t *testing.T) {
	denied, failure := sftptest.Refuse(wire.PermissionDenied, ""), sftptest.Refuse(wire.Failure, "")
	all := []wire.Type{wire.TypeStat, wire.TypeLstat, wire.TypeFstat, wire.TypeReadlink,
		wire.TypeOpendir, wire.TypeReaddir}
	data := random(10_000)
	for name, host := range map[string]reticent{
		"no STAT":            {asked: all[:1], answer: denied},
		"no LSTAT":           {asked: all[1:2], answer: denied},
		"no STAT or LSTAT":   {asked: all[:2], answer: denied},
		"none by name":       {asked: all[:3], answer: failure},
		"nothing":            {asked: all, answer: denied},
		"nothing, no reason": {asked: all, answer: failure},
		"unknown requests":   {asked: all, answer: sftptest.Refuse(wire.OpUnsupported, "")},
		"OK": {asked: all[:3],
			answer: sftptest.ReplyType(wire.TypeStatus)},
		"missing is FAILURE": {asked: all[:4], answer: failure, missing: true},
		"missing is OK": {asked: all[:2], answer: sftptest.ReplyType(wire.TypeStatus),
			missing: true},
		"no renames, either": {asked: all, answer: denied, others: []wire.Type{wire.TypeRename}},
	} {
		t.Run(name, func(t *testing.T) {
			inPlace := func(j *copyJob) { j.Options.Placement = transfer.PlaceDirect }
			for what, up := range map[string]struct {
				target, stored string
				change         func(*copyJob)
			}{
				"a new name":    {"new", "/in/new", func(*copyJob) {}},
				"in place":      {"new", "/in/new", inPlace},
				"a directory":   {"/in/", "/in/source", func(*copyJob) {}},
				"no name":       {"", "/in/source", func(*copyJob) {}},
				"the root":      {"/", "/source", func(*copyJob) {}},
				"over another":  {"/in/old", "/in/old", inPlace},
				"from a stream": {"new", "/in/new", func(j *copyJob) { j.Reader = bytes.NewReader(data) }},
			} {
				b := host.bench(t)
				b.server.Files.WriteFile("/in/old", []byte("old"))
				source := b.local("source", data)
				if _, err := b.job(upload, source, up.target, up.change); err != nil {
					t.Errorf("%s: %v", what, err)
					continue
				}
				if got := b.remote(up.stored); !bytes.Equal(got, data) {
					t.Errorf("%s: %d bytes arrived", what, len(got))
				}
				if left := b.temporaries(); len(left) > 0 {
					t.Errorf("%s leaves %q", what, left)
				}
			}

			b := host.bench(t)
			source := filepath.Join(b.dir, "tree")
			fill(t, source, "a", "dir/b", "dir/c")
			for _, target := range []string{"", "/in/new"} {
				merged := func(j *treeJob) { j.Options.NoTargetDirectory = target == "" }
				if s, err := b.tree(upload, source, target, merged); err != nil || s.Files != 3 {
					t.Errorf("a tree to %q: %+v, %v", target, s, err)
				}
			}
		})
	}
}

// A stream cannot be read again, so what has arrived is copied on a host that does not rename it.
func TestStreamToAHostThatDoesNotRename(t *testing.T) {
	data := random(1 << 20)
	denied := sftptest.Refuse(wire.PermissionDenied, "")
	for name, host := range map[string]reticent{
		"telling": {others: []wire.Type{wire.TypeRename}},
		"silent": {asked: []wire.Type{wire.TypeStat, wire.TypeLstat, wire.TypeFstat}, answer: denied,
			others: []wire.Type{wire.TypeRename}},
		"not removing": {others: []wire.Type{wire.TypeRename, wire.TypeRemove}},
	} {
		t.Run(name, func(t *testing.T) {
			b := host.bench(t)
			stream := func(j *copyJob) {
				j.Reader = bytes.NewReader(data)
				j.Options.Hash, j.Options.Verify = checksum.SHA256, true
			}
			result, err := b.job(upload, "", "new", stream)
			if err != nil || !bytes.Equal(b.remote("/in/new"), data) || !result.InPlace ||
				result.Hash.IsZero() || result.Verified == "" {
				t.Errorf("%+v, %v", result, err)
			}
			left := b.temporaries()
			if kept := slices.Contains(host.others, wire.TypeRemove); (len(left) > 0) != kept ||
				(result.LeftBehind != "") != kept {
				t.Errorf("%q is left, and said to be %q", left, result.LeftBehind)
			}

			b = host.bench(t)
			b.server.Files.WriteFile("/in/old", []byte("old"))
			result, err = b.job(upload, "", "old", stream)
			if err != nil || !bytes.Equal(b.remote("/in/old"), data) {
				t.Errorf("over another file: %+v, %v", result, err)
			}
		})
	}
}

// From such a host a file comes with a tree's options, too; a dry run opens it to see whether it is
// there.
func TestFileFromAHostThatDoesNotTell(t *testing.T) {
	host := reticent{asked: []wire.Type{wire.TypeStat, wire.TypeLstat},
		answer: sftptest.Refuse(wire.PermissionDenied, "")}
	b := host.bench(t)
	data := random(10_000)
	b.server.Files.WriteFile("/in/file", data)
	target := filepath.Join(b.dir, "copy")
	dry := func(j *treeJob) { j.TreeOptions.DryRun = true }
	if _, err := b.tree(download, "/in/file", target, dry); err != nil {
		t.Error("a dry run:", err)
	}
	if planned := b.kinds(transfer.Planned, ""); len(planned) != 1 {
		t.Errorf("planned: %q", planned)
	}
	if s, err := b.tree(download, "/in/file", target); err != nil || s.Files != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	if got := b.read("copy"); !bytes.Equal(got, data) {
		t.Errorf("%d bytes arrived", len(got))
	}
	for _, options := range [][]func(*treeJob){nil, {dry}} {
		if _, err := b.tree(download, "/in/missing", target, options...); !errors.Is(err,
			fs.ErrNotExist) {
			t.Errorf("what is missing: %v", err)
		}
	}
	j := &syncJob{direction: download, far: b.host, src: "/in/file", dst: target}
	if _, err := j.run(t); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a sync: %v", err)
	}
}

// TestShortReadFromAHostThatDoesNotTell: only FSTAT says then that more was to come.
func TestShortReadFromAHostThatDoesNotTell(t *testing.T) {
	host := reticent{asked: []wire.Type{wire.TypeStat, wire.TypeLstat, wire.TypeRead},
		answer: sftptest.Refuse(wire.EOF, "")}
	b := host.bench(t)
	b.server.Files.WriteFile("/in/file", random(10_000))
	target := filepath.Join(b.dir, "copy")
	if _, err := b.job(download, "/in/file", target); !errors.Is(err, transfer.ErrSourceChanged) {
		t.Errorf("nothing was read, and it ends with %v", err)
	}
	if _, err := os.Lstat(target); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the target: %v", err)
	}
}

// What such a host has is not lost by mistake, however little it tells.
func TestUploadsKeepWhatTheHostDoesNotTell(t *testing.T) {
	denied := sftptest.Refuse(wire.PermissionDenied, "")
	byName := []wire.Type{wire.TypeStat, wire.TypeLstat, wire.TypeFstat}
	silent := append([]wire.Type{wire.TypeReadlink, wire.TypeOpendir}, byName...)
	names := reticent{asked: byName, answer: denied}
	nothing := reticent{asked: silent, answer: denied}
	noRename := reticent{asked: silent, answer: denied, others: []wire.Type{wire.TypeRename}}
	data := random(10_000)
	for name, test := range map[string]struct {
		host           reticent
		target, stored string
		fails          bool
	}{
		"a directory":               {names, "/in/dir", "/in/dir/source", false},
		"a directory, unseen":       {nothing, "/in/dir", "", true},
		"a directory, no rename":    {noRename, "/in/dir", "", true},
		"a link":                    {names, "/in/link", "/in/old", false},
		"a link to a directory":     {names, "/in/away", "/in/dir/source", false},
		"a file without renaming":   {noRename, "/in/old", "/in/old", false},
		"a file that is replaced":   {nothing, "/in/old", "/in/old", false},
		"a link, LSTAT refused":     {reticent{asked: byName[1:2], answer: denied}, "/in/link", "/in/old", false},
		"a link, STAT refused":      {reticent{asked: byName[:1], answer: denied}, "/in/link", "/in/old", false},
		"a link that leads nowhere": {names, "/in/dangling", "/in/nowhere", false},
	} {
		t.Run(name, func(t *testing.T) {
			b := test.host.bench(t)
			b.server.Files.WriteFile("/in/old", []byte("old"))
			b.server.Files.WriteFile("/in/dir/kept", []byte("kept"))
			b.server.Files.Symlink("old", "/in/link")
			b.server.Files.Symlink("dir", "/in/away")
			b.server.Files.Symlink("nowhere", "/in/dangling")
			_, err := b.job(upload, b.local("source", data), test.target)
			if (err != nil) != test.fails {
				t.Errorf("it ends with %v", err)
			}
			if test.fails && !strings.Contains(fmt.Sprint(err), "does not say what") {
				t.Errorf("it says %v", err)
			}
			if test.stored != "" && !bytes.Equal(b.remote(test.stored), data) {
				t.Errorf("%s is %.20q", test.stored, b.remote(test.stored))
			}
			if old := string(b.remote("/in/old")); test.stored != "/in/old" && old != "old" {
				t.Errorf("the old file is %.20q", old)
			}
			if kept := string(b.remote("/in/dir/kept")); kept != "kept" {
				t.Errorf("the file in the directory is %q", kept)
			}
			for _, link := range []string{"/in/link", "/in/away", "/in/dangling"} {
				if attrs, err := b.server.Files.Lstat(link); attrs.Permissions>>12 != 0o12 {
					t.Errorf("%s is no link any more: %o, %v", link, attrs.Permissions, err)
				}
			}
			if left := b.temporaries(); len(left) > 0 {
				t.Errorf("%q is left", left)
			}
		})
	}

	b := names.bench(t)
	b.server.Files.WriteFile("/in/old", []byte("old"))
	if _, err := b.job(relay, "/in/old", "/in/old", func(j *copyJob) { j.From = b.host }); err == nil {
		t.Error("a file is copied to itself")
	}
	if old := string(b.remote("/in/old")); old != "old" {
		t.Errorf("copied to itself, it is %q", old)
	}
}

// Some drop boxes do nothing but take files. They get what scp delivers: old files are written
// over, and emptied first if they cannot be cut afterwards.
func TestDropBox(t *testing.T) {
	long, short := random(100_000), random(10)
	for _, code := range []wire.Code{wire.PermissionDenied, wire.Failure, wire.OpUnsupported} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			dropBox := func() *bench {
				b := newBench(t, sftptest.Script{Home: "/in",
					Intercept: func(r sftptest.Request) []sftptest.Action {
						switch r.Type {
						case wire.TypeInit, wire.TypeOpen, wire.TypeWrite, wire.TypeClose:
							return nil
						}
						return []sftptest.Action{sftptest.Refuse(code, "")}
					}}, sftptest.LinkConfig{})
				b.server.Files.WriteFile("/in/short", short)
				b.server.Files.WriteFile("/in/long", long)
				return b
			}
			wants := map[string][]byte{"new": long, "short": long, "long": short}
			said := func(b *bench) (notes []string) {
				return slices.DeleteFunc(b.notes(), func(note string) bool {
					return strings.Contains(note, "is left behind")
				})
			}
			for name, data := range wants {
				b := dropBox()
				result, err := b.job(upload, b.local("source", data), "/in/"+name)
				if err != nil || !result.InPlace || !bytes.Equal(b.remote("/in/"+name), data) {
					t.Errorf("%s: %+v, %v", name, result, err)
				}
				if notes := said(b); len(notes) != 1 || !strings.Contains(notes[0], "in place") {
					t.Errorf("%s: it says %q", name, notes)
				}
			}

			b := dropBox()
			fill(t, filepath.Join(b.dir, "tree"), "another")
			for name, data := range wants {
				b.local(filepath.Join("tree", name), data)
			}
			s, err := b.tree(upload, filepath.Join(b.dir, "tree"), "/in/.", func(j *treeJob) {
				j.Options.NoTargetDirectory = true
			})
			if err != nil || s.Files != int64(len(wants)+1) || len(said(b)) != 1 {
				t.Errorf("a tree: %+v, %v; it says %q", s, err, said(b))
			}
			for name, data := range wants {
				if got := b.remote("/in/" + name); !bytes.Equal(got, data) {
					t.Errorf("a tree: %s has %d bytes", name, len(got))
				}
			}
		})
	}
}

// A large file goes there too, though nothing shows that further connections reach the same file.
func TestLargeUploadToAHostThatDoesNotTell(t *testing.T) {
	data := random(64 << 20)
	denied := sftptest.Refuse(wire.PermissionDenied, "")
	striped(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
		switch r.Type {
		case wire.TypeStat, wire.TypeLstat, wire.TypeFstat:
			return []sftptest.Action{denied}
		}
		return nil
	}}, func(b *bench) {
		if _, err := b.job(upload, b.local("source", data), "/target"); err != nil {
			t.Error(err)
		} else if !bytes.Equal(b.remote("/target"), data) {
			t.Error("the copy differs")
		}
	})
}

// Servers for Windows may answer REALPATH with backslashes, others begin with two slashes or spell
// names as their file system does, or tell no real paths: a sync that deletes still knows its
// directories.
func TestSyncWhateverRealpathAnswers(t *testing.T) {
	for name, real := range map[string]func(string) string{
		"two slashes": func(name string) string { return "/" + name },
		"decomposed":  norm.NFD.String,
		"backslashes": func(name string) string { return strings.ReplaceAll(name, "/", `\`) },
		"a drive": func(name string) string {
			return `C:` + strings.ReplaceAll(name, "/", `\`)
		},
		"nothing": nil,
	} {
		for _, target := range []string{"/mirror", "/", "mirror"} {
			t.Run(name+" "+target, func(t *testing.T) {
				b := newBench(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
					if r.Type != wire.TypeRealpath {
						return nil
					}
					if real == nil {
						return []sftptest.Action{sftptest.Refuse(wire.PermissionDenied, "")}
					}
					answer := wire.Names{Names: []wire.Name{{Filename: real(path.Join("/", r.Path))}}}
					return []sftptest.Action{sftptest.ReplyBytes(string(answer.Append(nil, r.ID)))}
				}}, sftptest.LinkConfig{})
				source := filepath.Join(b.dir, "source")
				fill(t, source, "dir/a", "dir/süb/b")
				for _, extra := range []string{"dir/x", "dir/süb/y", "gone/z"} {
					b.server.Files.WriteFile(path.Join("/", target, extra), []byte("extra"))
				}
				j := &syncJob{direction: upload, far: b.host, src: source, dst: target}
				j.options.Delete = true
				if s, err := j.run(t); err != nil || s.Files != 2 || s.Deleted != 4 {
					t.Errorf("%+v, %v", s.Totals, err)
				}
				if left := b.server.Files.Exists(path.Join("/", target, "dir/süb/y")); left {
					t.Error("a file that the source does not have is left")
				}
				back := filepath.Join(b.dir, "back")
				fill(t, back, "dir/süb/y")
				j = &syncJob{direction: download, far: b.host, src: target, dst: back}
				j.options.Delete = true
				if s, err := j.run(t); err != nil || s.Files != 2 || s.Deleted != 1 {
					t.Errorf("back: %+v, %v", s.Totals, err)
				}
			})
		}
	}
}
