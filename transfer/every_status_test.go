package transfer_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// asked are the requests of version 3, and changes those with which OK claims what has not
// happened.
var (
	asked = []wire.Type{wire.TypeOpen, wire.TypeClose, wire.TypeRead, wire.TypeWrite,
		wire.TypeLstat, wire.TypeFstat, wire.TypeSetstat, wire.TypeFsetstat, wire.TypeOpendir,
		wire.TypeReaddir, wire.TypeRemove, wire.TypeMkdir, wire.TypeRmdir, wire.TypeRealpath,
		wire.TypeStat, wire.TypeRename, wire.TypeReadlink, wire.TypeSymlink, wire.TypeExtended}
	changes = map[wire.Type]bool{wire.TypeWrite: true, wire.TypeClose: true, wire.TypeSetstat: true,
		wire.TypeFsetstat: true, wire.TypeRemove: true, wire.TypeMkdir: true, wire.TypeRmdir: true,
		wire.TypeRename: true, wire.TypeSymlink: true, wire.TypeExtended: true}
)

// contents are the files of a tree, by their names in it.
type contents map[string]string

var (
	sourceFiles = contents{"new": "new", "longer": strings.Repeat("longer than before ", 3000),
		"shorter": "short", "equal": "the same", "sub/new": "new, too", "sub/longer": "also longer"}
	oldFiles = contents{"longer": "old", "shorter": strings.Repeat("old and longer ", 3000),
		"equal": "the same", "sub/longer": "old", "extra": "only there", "sub/extra": "only there"}
)

// TestEveryStatusForEveryRequest: a host answers a request with each status, always or once, while
// files and trees are copied and synced. Nothing that was there is lost, and what is reported as
// done is done.
func TestEveryStatusForEveryRequest(t *testing.T) {
	for _, request := range asked {
		t.Run(request.String(), func(t *testing.T) {
			t.Parallel()
			for code := wire.OK; code <= wire.OpUnsupported; code++ {
				if code == wire.OK && changes[request] ||
					code == wire.EOF && request == wire.TypeReaddir { // an empty directory
					continue
				}
				nths := []int{0}
				if code == wire.NoSuchFile || code == wire.PermissionDenied || code == wire.Failure {
					nths = append(nths, 1+(int(request)+int(code))%3)
				}
				for _, nth := range nths {
					for _, direction := range []way{upload, download} {
						for _, what := range []string{"file", "tree", "sync"} {
							a := anAnswer{request, code, nth, direction, what}
							synctest.Test(t, a.test)
						}
					}
				}
			}
		})
	}
}

// anAnswer is one case: how the nth request of a type is answered, or each if nth is 0.
type anAnswer struct {
	request   wire.Type
	code      wire.Code
	nth       int
	direction way
	what      string
}

func (a anAnswer) test(t *testing.T) {
	var mu sync.Mutex
	seen, begun := 0, false
	known := usftp.WithServerVersion("")
	if (int(a.request)+int(a.code))%2 == 0 { // it gets WRITE, FSETSTAT and CLOSE at once
		known = inOrder
	}
	b := newBench(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
		mu.Lock()
		defer mu.Unlock()
		if !begun || r.Type != a.request {
			return nil
		}
		if seen++; a.nth != 0 && seen != a.nth {
			return nil
		}
		return []sftptest.Action{sftptest.Refuse(a.code, "")}
	}}, sftptest.LinkConfig{}, known)
	near, far := filepath.Join(b.dir, "tree"), "/tree"
	src, dst, before := near, far, [2]contents{sourceFiles, oldFiles} // near and far
	if a.direction == download {
		src, dst, before = far, near, [2]contents{oldFiles, sourceFiles}
	}
	old := time.Now().Add(-time.Hour)
	for name, data := range before[0] {
		fill(t, near, name)
		must(t, os.WriteFile(filepath.Join(near, name), []byte(data), 0o644))
		must(t, os.Chtimes(filepath.Join(near, name), old, old))
	}
	for name, data := range before[1] {
		b.server.Files.WriteFile(far+"/"+name, []byte(data))
		must(t, b.server.Files.SetModTime(far+"/"+name, old))
	}
	mu.Lock()
	begun = true
	mu.Unlock()

	wants := maps.Clone(sourceFiles)
	var err error
	deleted := int64(0)
	switch a.what {
	case "file":
		wants = contents{"longer": sourceFiles["longer"]}
		_, err = b.job(a.direction, src+"/longer", dst+"/longer")
	case "tree":
		_, err = b.tree(a.direction, src, dst, func(j *treeJob) { j.Options.NoTargetDirectory = true })
	case "sync":
		j := &syncJob{direction: a.direction, far: b.host, src: src, dst: dst}
		j.options.Delete = true
		var s transfer.Summary
		s, err = j.run(t)
		deleted = s.Deleted
	}
	mu.Lock()
	begun = false
	mu.Unlock()
	now := [2]contents{filesBelow(t, near), {}}
	for _, name := range b.server.Files.List() {
		if rel, found := strings.CutPrefix(name, far+"/"); found && !strings.HasSuffix(name, "/") {
			data, err := b.server.Files.ReadFile(name)
			must(t, err)
			now[1][rel] = string(data)
		}
	}
	there, here := now[1], now[0]
	if a.direction == download {
		there, here = here, there
	}
	if !maps.Equal(here, sourceFiles) {
		t.Errorf("%v: the source has changed", a)
	}
	if err == nil {
		for name, data := range wants {
			if there[name] != data {
				t.Errorf("%v: %s has %d bytes of %d, and nothing failed", a, name, len(there[name]),
					len(data))
			}
		}
	}
	for name, data := range oldFiles {
		_, is := sourceFiles[name]
		switch got, found := there[name]; {
		case !is && !found && deleted > 0, found && (got == data || got == sourceFiles[name]):
		case !holds(there, data):
			t.Errorf("%v: %s is lost: it has %d bytes: %v", a, name, len(got), err)
		}
	}
}

func holds(files contents, data string) bool {
	for _, has := range files {
		if has == data {
			return true
		}
	}
	return false
}

func filesBelow(t *testing.T, dir string) contents {
	files := contents{}
	must(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		files[filepath.ToSlash(strings.TrimPrefix(name, dir+string(filepath.Separator)))] = string(data)
		return err
	}))
	return files
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
