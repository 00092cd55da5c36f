package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// TestDeadlyRequest: a host whose connection ends whenever one file is asked for, or written, gets and
// gives all others: that one has failed, in bounded time.
func TestDeadlyRequest(t *testing.T) {
	t.Parallel()
	rename := func(r sftptest.Request) bool { // of any kind
		return r.Type == wire.TypeRename || r.Extension == wire.ExtPosixRename
	}
	of := func(kind wire.Type) func(sftptest.Request) bool {
		return func(r sftptest.Request) bool { return r.Type == kind }
	}
	for _, d := range []deadly{
		{name: "OPEN", on: of(wire.TypeOpen)},
		{name: "CLOSE", on: of(wire.TypeClose)},
		{name: "WRITE", ways: []way{upload, relay}, on: of(wire.TypeWrite)},
		{name: "READ", ways: []way{download, relay}, on: of(wire.TypeRead)},
		{name: "RENAME", ways: []way{upload, relay}, on: rename},
		{name: "two files", files: 2, on: of(wire.TypeOpen)},
		{name: "a large file", size: 3 << 20, on: func(r sftptest.Request) bool {
			return (r.Type == wire.TypeRead || r.Type == wire.TypeWrite) && r.Offset > 1<<20
		}},
	} {
		if d.ways == nil {
			d.ways = []way{upload, download, relay}
		}
		for _, d.way = range d.ways {
			for _, d.sync = range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %v %v", d.name, d.way, d.sync), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) { d.run(t) })
				})
			}
		}
	}
}

// deadly is a case of TestDeadlyRequest.
type deadly struct {
	name  string
	ways  []way
	on    func(sftptest.Request) bool // if it concerns one of the files
	files int                         // 0 means 1
	size  int
	way
	sync bool
}

// paths returns the files of the tree, and those that cannot be copied.
func (d deadly) paths() (all, lost []string) {
	for i := range 100 {
		all = append(all, fmt.Sprintf("%d/file%d", i%7, i))
	}
	for i := range max(1, d.files) {
		name := fmt.Sprintf("%d/deadly%d", i, i)
		lost = append(lost, name)
	}
	return append(all, lost...), lost
}

func (d deadly) run(t *testing.T) {
	link := sftptest.LinkConfig{ToServer: 5 * time.Millisecond, ToClient: 5 * time.Millisecond}
	b := newBench(t, sftptest.Script{
		Intercept: func(r sftptest.Request) []sftptest.Action {
			if strings.Contains(r.Path, "deadly") && d.on(r) {
				return []sftptest.Action{sftptest.Hangup()}
			}
			return nil
		}}, link)
	other := newBench(t, sftptest.Script{}, link)
	count := b.redials(link, nil)
	all, lost := d.paths()
	contents := func(name string) []byte {
		size := 100 * len(name)
		if strings.Contains(name, "deadly") {
			size = max(size, d.size)
		}
		return []byte(strings.Repeat(name[:1]+name[len(name)-1:], size/2))
	}
	source, target := filepath.Join(b.dir, "source"), "/target"
	from, to := other, b
	switch d.way {
	case download:
		from, to, source, target = b, other, "/source", filepath.Join(b.dir, "target")
	case relay:
		source = "/source"
		if d.ways[0] == download {
			from, to = b, other
		}
	}
	for _, name := range all {
		if d.way == upload {
			os.MkdirAll(filepath.Join(source, path.Dir(name)), 0o755)
			os.WriteFile(filepath.Join(source, name), contents(name), 0o644)
		} else {
			from.server.Files.WriteFile(path.Join("/source", name), contents(name))
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Hour)
	defer cancel()
	host := to.host
	if d.way == download {
		host = from.host
	}
	dst, src := d.endpoints(host, from.host, source, target, nil, nil)
	o := transfer.TreeOptions{}
	o.Retries, o.MaxFiles = 5, 16 // so that others remain when the first is lost
	var said []string
	o.Events = func(e transfer.Event) {
		if e.Kind == transfer.Retried {
			said = append(said, e.Message)
		}
	}
	var s transfer.Summary
	var err error
	began := time.Now()
	if d.sync {
		s, err = transfer.Sync(ctx, dst, src, transfer.SyncOptions{TreeOptions: o})
	} else {
		s, err = transfer.CopyTree(ctx, dst, src, o)
	}
	tree, ok := errors.AsType[*transfer.TreeError](err)
	if !ok || int(tree.Failed) != len(lost) || s.Files != 100 || !s.Complete ||
		!strings.Contains(err.Error(), "deadly") {
		t.Errorf("%d connections, %v: %v; %+v; it said %q", *count, time.Since(began), err, s.Totals, said)
	}
	if took := time.Since(began); took > time.Duration(len(lost))*2*time.Minute || *count > 50*len(lost) {
		t.Errorf("it took %v and %d connections", took, *count)
	}
	var wrong []string
	for _, name := range all {
		var data []byte
		if d.way == download {
			data, _ = os.ReadFile(filepath.Join(target, name))
		} else {
			data, _ = to.server.Files.ReadFile(path.Join(target, name))
		}
		if there := string(data) == string(contents(name)); there == strings.Contains(name, "deadly") {
			wrong = append(wrong, name)
		}
	}
	if len(wrong) > 0 {
		t.Errorf("%d files are not as they should be: %q", len(wrong), wrong[:min(5, len(wrong))])
	}
	if left := to.temporaries(); len(left) > len(lost) {
		t.Errorf("left behind: %q", left)
	}
}

// TestDeadlyDirectory: if it is a directory that ends the connection, the run ends, as nothing tells
// what else of the host could be reached. No file is held responsible for that, except one that also
// ends it.
func TestDeadlyDirectory(t *testing.T) {
	t.Parallel()
	for _, on := range []wire.Type{wire.TypeOpendir, wire.TypeReaddir} {
		t.Run(fmt.Sprint(on), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				link := sftptest.LinkConfig{ToServer: 5 * time.Millisecond, ToClient: 5 * time.Millisecond}
				b := newBench(t, sftptest.Script{
					Intercept: func(r sftptest.Request) []sftptest.Action {
						if strings.HasSuffix(r.Path, "mined") && r.Type == on ||
							strings.Contains(r.Path, "deadly") && r.Type == wire.TypeOpen {
							return []sftptest.Action{sftptest.Hangup()}
						}
						return nil
					}}, link)
				count := b.redials(link, nil)
				for i := range 50 {
					b.server.Files.WriteFile(fmt.Sprintf("/source/%d/file%d", i%7, i), []byte("contents"))
				}
				b.server.Files.WriteFile("/source/3/deadly", []byte("contents"))
				b.server.Files.WriteFile("/source/5/mined/below", []byte("contents"))
				o := transfer.TreeOptions{}
				o.Retries = 5
				var failed []string
				o.Events = func(e transfer.Event) {
					if e.Kind == transfer.Failed {
						failed = append(failed, e.Source)
					}
				}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Hour)
				defer cancel()
				_, err := transfer.CopyTree(ctx, transfer.Local(filepath.Join(b.dir, "target")),
					transfer.Remote(b.host, "/source"), o)
				most := 5 * 52 // each file that gets on allows that many again
				if err == nil || !strings.Contains(err.Error(), "gave up after 5 new connections") ||
					*count > most {
					t.Errorf("%d connections: %v", *count, err)
				}
				for _, name := range failed {
					if !strings.Contains(name, "deadly") && !strings.Contains(name, "mined") {
						t.Errorf("%s has failed: %v", name, err)
					}
				}
			})
		})
	}
}
