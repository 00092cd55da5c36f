//go:build linux || darwin || freebsd

package transfer_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// An attrsHost records the modes that a client gives to directories, and calls before when a
// request arrives that sets attributes or asks for a real path.
type attrsHost struct {
	*osfs.FS
	mu     sync.Mutex
	modes  []uint32
	before func(request, name string)
}

func (h *attrsHost) arrived(request, name string, attrs *wire.Attrs) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if attrs != nil && attrs.Has(wire.AttrPermissions) {
		h.modes = append(h.modes, attrs.Permissions&0o7777)
	}
	if h.before != nil {
		h.before(request, name)
	}
}

func (h *attrsHost) Setstat(ctx context.Context, name string, attrs wire.Attrs) error {
	h.arrived("setstat", name, &attrs)
	return h.FS.Setstat(ctx, name, attrs)
}

func (h *attrsHost) Lsetstat(ctx context.Context, name string, attrs wire.Attrs) error {
	h.arrived("lsetstat", name, &attrs)
	return h.FS.Lsetstat(ctx, name, attrs)
}

func (h *attrsHost) RealPath(ctx context.Context, name string) (string, error) {
	h.arrived("realpath", name, nil)
	return h.FS.RealPath(ctx, name)
}

// attrsHostOf is [hostOf] with an attrsHost, a server without beneath@usftp.
func attrsHostOf(t *testing.T, denied []string) (h *attrsHost, host pool.Host, dir string) {
	host, dir = hostOf(t, func(files *osfs.FS) server.FS {
		h = &attrsHost{FS: files}
		return h
	}, append(denied, "beneath"))
	return h, host, dir
}

// swapForLink moves what has a name to aside, and makes a link in its place.
func swapForLink(t *testing.T, name, aside, to string) {
	t.Helper()
	if err := os.Rename(name, aside); err != nil {
		t.Error(err)
	}
	if err := os.Symlink(to, name); err != nil {
		t.Error(err)
	}
}

// attrsHosts are hosts by the requests with which a client sets attributes there.
var attrsHosts = map[string][]string{
	"lsetstat": nil,
	"setstat":  {"lsetstat"},
}

// A read-only directory keeps the other bits of its mode while a sync writes in it.
func TestSyncKeepsTheModesOtherBits(t *testing.T) {
	for request, denied := range attrsHosts {
		t.Run(request, func(t *testing.T) {
			h, host, dir := attrsHostOf(t, denied)
			src, dst := t.TempDir(), filepath.Join(dir, "dst")
			fill(t, src, "d/file")
			fill(t, dst, "d/old")
			if err := os.Chmod(filepath.Join(dst, "d"),
				0o555|fs.ModeSetgid|fs.ModeSticky); err != nil {
				t.Fatal(err)
			}
			asked := ""
			h.before = func(by, name string) {
				if asked == "" && name == "/dst/d" && by != "realpath" {
					asked = by
				}
			}
			(&syncJob{direction: upload, far: host, src: src, dst: "/dst"}).must(t)
			if asked != request || len(h.modes) == 0 || h.modes[0] != 0o3755 {
				t.Errorf("asked by %s for the modes %#o", asked, h.modes)
			}
		})
	}
	t.Run("local", func(t *testing.T) {
		dir := t.TempDir()
		src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
		fill(t, src, "d/file")
		fill(t, dst, "d/old")
		if err := os.Chmod(filepath.Join(dst, "d"), 0o555|fs.ModeSetgid|fs.ModeSticky); err != nil {
			t.Fatal(err)
		}
		var seen fs.FileMode
		o := transfer.SyncOptions{}
		o.Events = func(e transfer.Event) {
			if info, err := os.Stat(filepath.Join(dst, "d")); err == nil &&
				e.Kind == transfer.Done && seen == 0 {
				seen = info.Mode()
			}
		}
		if _, err := transfer.Sync(t.Context(), transfer.Local(dst), transfer.Local(src),
			o); err != nil {
			t.Fatal(err)
		}
		if want := fs.ModeDir | fs.ModeSetgid | fs.ModeSticky | 0o755; seen != want {
			t.Errorf("while it was written in: %v, want %v", seen, want)
		}
	})
}

// A link that replaces a directory after something in it was deleted gets no attributes of the
// source, and neither does what it leads to.
func TestSyncFinishesNoDirectoryThroughALink(t *testing.T) {
	h, host, dir := attrsHostOf(t, nil)
	src, dst, outside := t.TempDir(), filepath.Join(dir, "dst"), filepath.Join(dir, "outside")
	fill(t, src, "a/d/kept")
	fill(t, dst, "a/d/kept", "a/d/old")
	fill(t, outside, "d/file")
	if err := os.Chmod(filepath.Join(outside, "d"), 0o700); err != nil {
		t.Fatal(err)
	}
	swapped := false
	h.before = func(request, name string) {
		_, err := os.Lstat(filepath.Join(dst, "a/d/old"))
		if swapped || name != "/dst/a/d" || err == nil {
			return
		}
		swapped = true
		swapForLink(t, filepath.Join(dst, "a/d"), filepath.Join(dir, "aside"), "../../outside/d")
	}
	j := &syncJob{direction: upload, far: host, src: src, dst: "/dst"}
	j.options.Delete = true
	if _, err := j.run(t); err == nil || !swapped {
		t.Errorf("swapped %v, ended with %v", swapped, err)
	}
	if info, err := os.Stat(filepath.Join(outside, "d")); err != nil ||
		info.Mode().Perm() != 0o700 {
		t.Errorf("outside of the target: %v, %v", info.Mode(), err)
	}
}

// A link that replaces a read-only directory does not make a sync change the mode of what it leads
// to, however late it appears.
func TestSyncOpensNoDirectoryThroughALink(t *testing.T) {
	for name, test := range map[string]struct {
		denied []string
		when   string
		deep   bool // the link replaces a directory above
	}{
		"lsetstat, late":  {nil, "lsetstat", false},
		"lsetstat":        {nil, "realpath", false},
		"lsetstat, above": {nil, "realpath", true},
		"setstat":         {[]string{"lsetstat"}, "realpath", false},
		"setstat, above":  {[]string{"lsetstat"}, "realpath", true},
	} {
		t.Run(name, func(t *testing.T) {
			h, host, dir := attrsHostOf(t, test.denied)
			src, dst, outside := t.TempDir(), filepath.Join(dir, "dst"),
				filepath.Join(dir, "outside")
			fill(t, src, "a/d/file")
			fill(t, dst, "a/d/old")
			fill(t, outside, "d/old")
			t.Cleanup(func() { writable(dir) })
			closed := []string{filepath.Join(outside, "d"), filepath.Join(dst, "a/d")}
			for _, dir := range closed {
				if err := os.Chmod(dir, 0o555); err != nil {
					t.Fatal(err)
				}
			}
			swapped := false
			h.before = func(request, name string) {
				if swapped || request != test.when || name != "/dst/a/d" {
					return
				}
				swapped = true
				replaced, link := "a/d", "../../outside/d"
				if test.deep {
					replaced, link = "a", "../outside"
				}
				replaced = filepath.Join(dst, replaced) // a read-only directory cannot go elsewhere
				swapForLink(t, replaced, replaced+"-aside", link)
			}
			_, err := (&syncJob{direction: upload, far: host, src: src, dst: "/dst"}).run(t)
			if err == nil || !swapped {
				t.Errorf("swapped %v, ended with %v", swapped, err)
			}
			info, err := os.Stat(closed[0])
			if err != nil || info.Mode().Perm() != 0o555 {
				t.Errorf("outside of the target: %v, %v", info.Mode(), err)
			}
			if _, err := os.Stat(filepath.Join(closed[0], "file")); err == nil {
				t.Error("it wrote outside of the target")
			}
		})
	}
}
