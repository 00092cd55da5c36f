package usftp_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// hostile is a server on which every name is a directory with the entries that list returns, and
// every operation succeeds. list is called for each READDIR on a handle; nil means the end.
func hostile(list func(path string, n int) []wire.Name) sftptest.Script {
	var handles atomic.Int64
	paths, asked := make(map[string]string), make(map[string]int)
	return sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
		reply := func(packet []byte) []sftptest.Action {
			return []sftptest.Action{sftptest.ReplyBytes(string(packet))}
		}
		switch r.Type {
		case wire.TypeLstat:
			return reply(wire.AttrsReply{Attrs: directory}.Append(nil, r.ID))
		case wire.TypeOpendir:
			handle := fmt.Sprintf("%04d", handles.Add(1))
			paths[handle] = r.Path
			return reply(wire.Handle{Handle: []byte(handle)}.Append(nil, r.ID))
		case wire.TypeReaddir:
			names := list(paths[r.Handle], asked[r.Handle])
			asked[r.Handle]++
			if names == nil {
				return []sftptest.Action{sftptest.Refuse(wire.EOF, "")}
			}
			return reply(wire.Names{Names: names}.Append(nil, r.ID))
		case wire.TypeRemove:
			if strings.HasSuffix(r.Path, "/d") || r.Path == "/d" {
				return []sftptest.Action{sftptest.Refuse(wire.Failure, "")}
			}
			fallthrough
		case wire.TypeRmdir, wire.TypeClose:
			return []sftptest.Action{sftptest.Refuse(wire.OK, "")}
		}
		return nil
	}}
}

var (
	directory = wire.Attrs{Flags: wire.AttrPermissions, Permissions: 0o40755}
	regular   = wire.Attrs{Flags: wire.AttrPermissions, Permissions: 0o100644}
)

// freshNames lists ever new names, without end.
func freshNames(attrs wire.Attrs) func(string, int) []wire.Name {
	var listed atomic.Int64
	return func(string, int) []wire.Name {
		names := make([]wire.Name, 1000)
		for i := range names {
			names[i] = wire.Name{Filename: fmt.Sprint("n", listed.Add(1)), Attrs: attrs}
		}
		return names
	}
}

// deeper lists one directory in each directory, without end.
func deeper(_ string, n int) []wire.Name {
	if n > 0 {
		return nil
	}
	return []wire.Name{{Filename: strings.Repeat("d", 255), Attrs: directory}}
}

func TestListingWithoutEnd(t *testing.T) {
	t.Run("RemoveAll of files", func(t *testing.T) {
		r := newRig(t, hostile(freshNames(regular)), 0)
		before := r.Stats().Requests
		if err := usftp.RemoveTree(r.Client, "/d", 50_000); err == nil ||
			!strings.Contains(err.Error(), "more names than any file system holds") {
			t.Errorf("the error is %v", err)
		}
		if asked := r.Stats().Requests - before; asked > 70_000 {
			t.Errorf("it sent %d requests", asked)
		}
	})
	t.Run("RemoveAll of directories", func(t *testing.T) {
		r := newRig(t, hostile(freshNames(directory)), 0)
		if err := usftp.RemoveTree(r.Client, "/d", 500_000); err == nil ||
			!strings.Contains(err.Error(), "more names than any file system holds") {
			t.Errorf("the error is %v", err)
		}
	})
	t.Run("ReadDir", func(t *testing.T) {
		r := newRig(t, hostile(freshNames(regular)), 0)
		files, err := usftp.ReadDirMost(r.Client, "/d", 2_500)
		var path *fs.PathError
		if len(files) != 2_500 || !errors.As(err, &path) || path.Path != "/d" {
			t.Errorf("%d files, %v", len(files), err)
		}
	})
}

func TestTreeWithoutBottom(t *testing.T) {
	t.Run("RemoveAll", func(t *testing.T) {
		r := newRig(t, hostile(deeper), 0)
		if err := r.RemoveAll("/d"); err == nil ||
			!strings.Contains(err.Error(), "path longer than") {
			t.Errorf("the error is %.200v", err)
		}
	})
	t.Run("WalkDir", func(t *testing.T) {
		r := newRig(t, hostile(deeper), 0)
		var found error
		levels := 0
		ok(t, r.WalkDir("/d", func(_ string, _ fs.DirEntry, err error) error {
			levels++
			if err != nil {
				found = err
			}
			return nil
		}))
		if found == nil || !strings.Contains(found.Error(), "path longer than") || levels > 200 {
			t.Errorf("%d levels, %.200v", levels, found)
		}
	})
}

// The pairs of 8 bytes in a packet need several times as much memory.
func TestManyExtendedAttributes(t *testing.T) {
	with := func(pairs int) func(string, int) []wire.Name {
		attrs := wire.Attrs{Flags: wire.AttrExtended | wire.AttrPermissions, Permissions: 0o100644,
			Extended: make([]wire.ExtensionPair, pairs)}
		return func(_ string, n int) []wire.Name {
			if n > 0 {
				return nil
			}
			return []wire.Name{{Filename: "f", Attrs: attrs}}
		}
	}
	for _, c := range []struct {
		name  string
		pairs int
		taken bool
	}{
		{"a few", 3, true}, {"as many as may be", wire.MaxExtended, true},
		{"one more", wire.MaxExtended + 1, false}, {"a million", 1_000_000, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, hostile(with(c.pairs)), 0)
			files, err := r.ReadDir("/d")
			var broken *usftp.ProtocolError
			switch {
			case !c.taken && !errors.As(err, &broken):
				t.Errorf("%d files, %v", len(files), err)
			case c.taken && (err != nil || len(files[0].FileStat().Extended) != c.pairs):
				t.Errorf("%d files, %v", len(files), err)
			}
		})
	}
}
