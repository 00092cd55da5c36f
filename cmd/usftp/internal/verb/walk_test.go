package verb

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/treewalk"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// TestWalkIsBounded: if the order does not matter, only part of a large directory is held in
// memory, and no entry is missing or repeated.
func TestWalkIsBounded(t *testing.T) {
	const entries = 400_000
	r, _ := listing(t, entries, nil)
	j := r.begin(t.Context())
	var most uint64
	seen := 0
	last := ""
	w := &walk{job: j, each: func(in *dir, e *entry, _ *dir) error {
		if in == nil {
			return nil
		}
		if seen++; seen%50_000 == 0 {
			var stats runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&stats)
			most = max(most, stats.HeapAlloc)
		}
		if e.name <= last {
			return fmt.Errorf("%s comes after %s", e.name, last)
		}
		last = e.name
		return nil
	}}
	top := j.lookup([]string{"/d"}, followNever, func(_ string, err error) { t.Fatal(err) })
	w.run(top)
	ok(t, j.err)
	if seen != entries {
		t.Errorf("%d entries, want %d", seen, entries)
	}
	if most > 64<<20 { // all of them would take more than 120 MB
		t.Errorf("%d MB were held", most>>20)
	}
}

// TestSortedDirectoryComesOnce: if the order matters, a directory is entered once, with all its
// entries, however its end and the visit race.
func TestSortedDirectoryComesOnce(t *testing.T) {
	server := sftptest.NewServer(t, sftptest.Script{})
	server.Files.Mkdir("/d")
	const dirs = 300
	for i := range dirs {
		server.Files.Mkdir(fmt.Sprintf("/d/%04d", i))
		server.Files.Mkdir(fmt.Sprintf("/d/%04d/below", i))
	}
	client := clientOf(t, server.Dial(sftptest.LinkConfig{}), usftp.WithServerVersion(openSSH))
	j := newRig(client).begin(t.Context())
	entered := make(map[string]int)
	w := &walk{job: j, order: byName, enter: func(d *dir, _ []*entry) error {
		entered[d.path]++
		return nil
	}}
	top := j.lookup([]string{"/d"}, followNever, func(_ string, err error) { t.Fatal(err) })
	w.run(top)
	ok(t, j.err)
	for path, times := range entered {
		if times != 1 {
			t.Errorf("%s was entered %d times", path, times)
		}
	}
	if len(entered) != 1+2*dirs {
		t.Errorf("%d directories were entered, want %d", len(entered), 1+2*dirs)
	}
}

// listing is a server whose directory /d has so many entries, and an end; nil means the usual one.
// opened counts how often it was opened.
func listing(t *testing.T, entries int, end []sftptest.Action) (r *rig, opened func() int) {
	listed, openings := 0, 0
	server := sftptest.NewServer(t,
		sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
			switch {
			case r.Path == "/d" && r.Type == wire.TypeOpendir:
				openings++
				return nil
			case r.Path != "/d" || r.Type != wire.TypeReaddir:
				return nil
			case listed == entries:
				return end
			}
			names := make([]wire.Name, 100)
			for i := range names {
				listed++
				names[i] = wire.Name{Filename: fmt.Sprintf("%07d-%s", listed,
					strings.Repeat("x", 80)),
					Attrs: wire.Attrs{Flags: wire.AttrPermissions | wire.AttrSize,
						Permissions: typeFile | 0o644, Size: 1}}
			}
			return []sftptest.Action{
				sftptest.ReplyBytes(string(wire.Names{Names: names}.Append(nil, r.ID)))}
		}})
	server.Files.Mkdir("/d")
	server.Files.Mkdir("/e")
	client := clientOf(t, server.Dial(sftptest.LinkConfig{}), usftp.WithServerVersion(openSSH))
	return newRig(client), func() int { client.RealPath("/"); return openings }
}

// TestListingBreaksOff: where a listing fails after some parts of it were visited, nothing is
// visited again, and the failure is told once.
func TestListingBreaksOff(t *testing.T) {
	for name, code := range map[string]wire.Code{"failure": wire.Failure,
		"permission": wire.PermissionDenied} {
		t.Run(name, func(t *testing.T) {
			r, opened := listing(t, 3*treewalk.MostPart, []sftptest.Action{sftptest.Refuse(code, "no more")})
			j := r.begin(t.Context())
			seen, told := 0, 0
			w := &walk{job: j, again: func() {},
				each: func(in *dir, _ *entry, _ *dir) error {
					if in != nil {
						seen++
					}
					return nil
				},
				enter: func(d *dir, _ []*entry) error {
					if d.Err != nil {
						told++
					}
					return nil
				}}
			// With another directory under way, a failure may mean too few handles.
			top := j.lookup([]string{"/d", "/e"}, followNever, func(_ string, err error) {
				t.Fatal(err)
			})
			w.run(top)
			ok(t, j.err)
			if n := opened(); seen != 3*treewalk.MostPart || told != 1 || n != 1 {
				t.Errorf("%d entries were visited, want %d; the failure was told %d times; it was opened %d times",
					seen, 3*treewalk.MostPart, told, n)
			}
		})
	}
}
