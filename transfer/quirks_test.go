package transfer_test

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// TestTreeRemembersWhatTheHostRefuses: that a host accepts no temporary names, or does not rename,
// is discovered by the few files in progress and reported once; all are written in place.
func TestTreeRemembersWhatTheHostRefuses(t *testing.T) {
	const files, atATime = 60, 4
	for name, test := range map[string]struct {
		each    int64 // how often each file in progress is refused
		refuses func(sftptest.Request) bool
		code    wire.Code
		there   bool // the files exist at the target already
		leaves  bool // temporary files that cannot be removed, each named
	}{
		"temporary names": {each: 1, refuses: func(r sftptest.Request) bool {
			return r.Type == wire.TypeOpen && strings.Contains(r.Path, ".usftp-")
		}},
		"new names": {each: 1, there: true, refuses: func(r sftptest.Request) bool {
			return r.Type == wire.TypeOpen && strings.Contains(r.Path, ".usftp-")
		}},
		"renames": {each: 2, refuses: renames},
		// whether any file is renamed is asked with another one
		"renames, over old files": {each: 2, there: true, refuses: renames},
		"renames, no reason":      {each: 2, code: wire.Failure, refuses: renames},
		"renames, over old files, no reason": {each: 2, code: wire.Failure, there: true,
			refuses: renames},
		"renames, over old files, unknown": {each: 2, code: wire.OpUnsupported, there: true,
			refuses: renames},
		"renames and removals": {leaves: true, refuses: func(r sftptest.Request) bool {
			return renames(r) || r.Type == wire.TypeRemove
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var refused atomic.Int64
			b := newBench(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
				if test.refuses(r) {
					refused.Add(1)
					return []sftptest.Action{sftptest.Refuse(cmp.Or(test.code,
						wire.PermissionDenied), "")}
				}
				return nil
			}}, sftptest.LinkConfig{})
			source := filepath.Join(b.dir, "tree")
			if err := os.Mkdir(source, 0o755); err != nil {
				t.Fatal(err)
			}
			b.server.Files.Mkdir("/tree")
			for i := range files {
				b.local(fmt.Sprint("tree/", i), []byte(fmt.Sprint("new ", i)))
				if test.there {
					b.server.Files.WriteFile(fmt.Sprint("/tree/", i), []byte("older than new"))
				}
			}
			tree := treeJob{Host: b.host, Source: source + "/.", Target: "/tree",
				TreeOptions: transfer.TreeOptions{MaxFiles: atATime},
				Options: transfer.Options{Events: func(e transfer.Event) {
					b.events = append(b.events, e)
				}}}
			summary, err := tree.Run(t.Context())
			if test.leaves {
				for _, name := range b.temporaries() {
					if !slices.ContainsFunc(b.notes(), func(note string) bool {
						return strings.Contains(note, name+" is left behind")
					}) {
						t.Errorf("%s was left, and it said %q", name, b.notes())
					}
				}
			} else if n := refused.Load(); n == 0 || n > atATime*test.each {
				t.Errorf("%d requests were refused, and %d files are under way at a time", n,
					atATime)
			}
			if summary.Failed != 0 || summary.Files != files || err != nil {
				t.Errorf("%+v, %v", summary, err)
			}
			notes := slices.DeleteFunc(b.notes(), func(note string) bool {
				return test.leaves && strings.Contains(note, "is left behind")
			})
			if len(notes) != 1 || !strings.Contains(notes[0], "in place") {
				t.Errorf("it said %q", notes)
			}
			arrived := int64(0)
			for i := range files {
				if got, _ := b.server.Files.ReadFile(fmt.Sprint("/tree/",
					i)); string(got) == fmt.Sprint("new ", i) {
					arrived++
				}
			}
			if left := len(b.temporaries()); arrived != files || test.leaves != (left > 0) ||
				left > 2*atATime {
				t.Errorf("%d files have arrived; temporary: %q", arrived, b.temporaries())
			}
		})
	}
}

// renames reports whether a request is one to rename.
func renames(r sftptest.Request) bool {
	return r.Type == wire.TypeRename || r.Type == wire.TypeExtended &&
		r.Extension == wire.ExtPosixRename
}

// TestTemporaryFileThatStays: a file that is copied in another way leaves a temporary file on a
// host that removes none, which is said.
func TestTemporaryFileThatStays(t *testing.T) {
	b := newBench(t, sftptest.Script{
		Extensions: []wire.ExtensionPair{{Name: wire.ExtPosixRename, Data: "1"}},
		Intercept: func(r sftptest.Request) []sftptest.Action {
			switch {
			case (r.Type == wire.TypeFsetstat || r.Type == wire.TypeSetstat) &&
				r.Attrs.Has(wire.AttrPermissions): // it is not set
				return []sftptest.Action{sftptest.Refuse(wire.OK, "")}
			case r.Type == wire.TypeRemove:
				return []sftptest.Action{sftptest.Refuse(wire.PermissionDenied, "")}
			}
			return nil
		}}, sftptest.LinkConfig{})
	b.server.Files.WriteFile("/target", []byte("old"))
	_, err := b.job(upload, b.local("source", random(1<<20)), "/target",
		func(j *copyJob) { j.Options.Preserve = true })
	left := b.temporaries()
	if err != nil || !bytes.Equal(b.remote("/target"), random(1<<20)) || len(left) != 1 {
		t.Fatalf("%v, left behind: %q", err, left)
	}
	if said := strings.Join(b.notes(), "\n"); !strings.Contains(said, left[0]) {
		t.Errorf("%s is left, and it says:\n%s", left[0], said)
	}
}
