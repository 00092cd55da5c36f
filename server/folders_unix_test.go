//go:build linux || darwin || freebsd

package server_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/sftptest"
)

// folders serves a tree: / from a directory, /in of it write only, /out read only, /shared and
// /far/away from other directories, and no *.exe anywhere but in /shared.
func folders(t *testing.T, atomic bool) (client *usftp.Client, root, shared string) {
	t.Helper()
	open := osfs.New
	if atomic {
		open = osfs.NewAtomic
	}
	directory := func() (string, server.FS) {
		dir := t.TempDir()
		files, err := open(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { files.Close() })
		return dir, files
	}
	root, base := directory()
	shared, other := directory()
	_, away := directory()
	for _, name := range []string{"in", "out", "free"} {
		if err := os.Mkdir(filepath.Join(root, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "out", "f"), []byte("out"), 0o644); err != nil {
		t.Fatal(err)
	}
	exe := []string{"*.exe"}
	tree, err := server.NewFolders(server.Folder{Path: "/", FS: base, RefusedNames: exe},
		server.Folder{Path: "/in", Policy: server.Policy{Denied: []string{"read", "opendir"}},
			RefusedNames: exe},
		server.Folder{Path: "/out", Policy: server.Policy{ReadOnly: true}},
		server.Folder{Path: "/shared", FS: other},
		server.Folder{Path: "/far/away", FS: away})
	if err != nil {
		t.Fatal(err)
	}
	return connected(t, tree), root, shared
}

// What cannot be removed from a folder, or not be listed there, does not leave it to be removed or
// listed elsewhere.
func TestFoldersKeep(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	base, err := osfs.New(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { base.Close() })
	tree, err := server.NewFolders(server.Folder{Path: "/", FS: base},
		server.Folder{Path: "/kept", Policy: server.Policy{Denied: []string{"remove"}}},
		server.Folder{Path: "/kept/too", Policy: server.Policy{Denied: []string{"remove", "rmdir"}}},
		server.Folder{Path: "/dark", Policy: server.Policy{Denied: []string{"readdir"}}})
	if err != nil {
		t.Fatal(err)
	}
	client := connected(t, tree)
	for _, dir := range []string{"/kept/d", "/kept/too/d", "/dark/d"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"/kept/f", "/dark/f"} {
		if err := client.WriteFile(name, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		from, to string
		moves    bool
	}{{"/kept/f", "/g", false}, {"/kept/d", "/g", false}, {"/kept/f", "/kept/g", true},
		{"/kept/g", "/kept/too/f", true}, {"/kept/too/f", "/kept/f", true},
		{"/kept/too/d", "/kept/e", false}, {"/dark/d", "/e", false}, {"/dark/f", "/f", true}} {
		if err := client.Rename(c.from, c.to); (err == nil) != c.moves {
			t.Errorf("%s to %s: %v", c.from, c.to, err)
		}
	}
	if err := client.Link("/kept/f", "/linked"); err != nil { // it stays there
		t.Error(err)
	}
}

// What a folder forbids is forbidden by whatever name, link or handle.
func TestFoldersHold(t *testing.T) {
	t.Parallel()
	for _, atomic := range []bool{false, true} {
		client, root, shared := folders(t, atomic)
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(client.WriteFile("/in/secret", []byte("secret"), 0o644))
		must(client.WriteFile("/free/f", []byte("free"), 0o644))
		must(client.WriteFile("/shared/a.exe", []byte("shared"), 0o644))
		must(client.Symlink("../in/secret", "/free/secret"))
		must(client.Symlink("../out", "/free/out"))
		must(client.Symlink(".", "/loop"))
		must(client.Symlink("../shared", "/free/shared"))
		must(client.Symlink("../x.exe", "/free/harmless"))
		must(client.Symlink("../free", "/shared/up"))
		for what, err := range map[string]error{
			"read a write-only file":    read(client, "/in/secret"),
			"read it in other case":     read(client, "/IN/secret"),
			"read it through a link":    read(client, "/free/secret"),
			"read it through a loop":    read(client, "/loop/loop/in/secret"),
			"read it by ..":             read(client, "/free/../in/secret"),
			"move it out":               client.Rename("/in/secret", "/free/moved"),
			"move it out, replacing":    client.PosixRename("/in/secret", "/free/moved"),
			"link it out":               client.Link("/in/secret", "/free/linked"),
			"write read-only":           client.WriteFile("/out/g", nil, 0o644),
			"write through a link":      client.WriteFile("/free/out/f", []byte("x"), 0o644),
			"remove read-only":          client.Remove("/free/out/f"),
			"chmod read-only":           client.Chmod("/out/f", 0o600),
			"link what is read-only":    client.Link("/out/f", "/free/linked"),
			"rename a folder":           client.Rename("/in", "/elsewhere"),
			"rename a folder by a link": client.Rename("/loop/in", "/elsewhere"),
			"rename onto a folder":      client.PosixRename("/free", "/shared"),
			"remove a folder":           client.RemoveDirectory("/shared"),
			"remove the way to one":     client.RemoveDirectory("/far"),
			"make the way to one":       client.Mkdir("/far"),
			"a link in place of one":    client.Symlink("free", "/far"),
			"a file in place of one":    client.WriteFile("/far", nil, 0o644),
			"cross folders":             client.Rename("/free/f", "/shared/f"),
			"link across folders":       client.Link("/free/f", "/shared/f"),
			"a refused name":            client.WriteFile("/free/A.EXE", nil, 0o644),
			"a refused name by rename":  client.Rename("/free/f", "/free/f.exe"),
			"a refused name of a dir":   client.Mkdir("/d.exe"),
			"a refused name of a link":  client.Symlink("f", "/l.exe"),
			"a refused name by a link":  client.WriteFile("/free/harmless", nil, 0o644),
			"out by a link":             read(client, "/shared/up/f"),
		} {
			if err == nil {
				t.Errorf("atomic %v: %s", atomic, what)
			}
		}
		data, err := client.ReadFile("/free/shared/a.exe")
		if err != nil || string(data) != "shared" {
			t.Errorf("a link to a folder: %q, %v", data, err)
		}
		name, err := client.RealPath("/loop/free/shared/a.exe")
		if err != nil || name != "/shared/a.exe" {
			t.Errorf("%s, %v", name, err)
		}
		if err := client.Rename("/free/f", "/shared/f"); errors.Is(err, fs.ErrPermission) ||
			!strings.Contains(err.Error(), "different folders") {
			t.Errorf("the client is told %v", err)
		}
		for dir, want := range map[string]string{"/": "far free in loop out shared", "/far": "away",
			"/shared": "a.exe up", "/loop/far/away": "", "/free/shared": "a.exe up"} {
			list, err := client.ReadDir(dir)
			var names []string
			for _, one := range list {
				names = append(names, one.BaseName())
			}
			slices.Sort(names)
			if got := strings.Join(names, " "); err != nil || got != want {
				t.Errorf("%s has %q, %v, want %q", dir, got, err, want)
			}
		}
		if _, err := client.ReadDir("/in"); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("/in is listed: %v", err)
		}
		for _, name := range []string{"/far", "/far/away", "/shared"} {
			if info, err := client.Stat(name); err != nil || !info.IsDir() {
				t.Errorf("%s: %v, %v", name, info, err)
			}
		}
		data, err = os.ReadFile(filepath.Join(root, "out", "f"))
		if err != nil || string(data) != "out" {
			t.Errorf("%q, %v", data, err)
		}
		if entries, err := os.ReadDir(shared); err != nil || len(entries) != 2 {
			t.Errorf("%v, %v", entries, err)
		}
	}
}

// connected serves a client of ours until the test ends.
func connected(t *testing.T, files server.FS) *usftp.Client {
	t.Helper()
	ours, theirs := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- server.Serve(context.Background(), theirs, files, nil) }()
	client, err := usftp.NewClientPipe(ours, ours)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		<-served
	})
	return client
}

func copied(from, to *usftp.File) error {
	_, err := from.CopyRange(0, 6, to, 0)
	return err
}

func read(client *usftp.Client, name string) error {
	_, err := client.ReadFile(name)
	return err
}

// A handle keeps the rules of the folder in which it was opened, for every request on it.
func TestFoldersHoldHandles(t *testing.T) {
	t.Parallel()
	client, _, _ := folders(t, false)
	f, err := client.OpenFile("/in/f", os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("secret"), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := f.ReadAt(make([]byte, 6), 0); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("it is read: %v", err)
	}
	free, err := client.Create("/free/f")
	if err != nil {
		t.Fatal(err)
	}
	defer free.Close()
	if err := copied(f, free); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("it is copied: %v", err)
	}
}

func TestFoldersRefused(t *testing.T) {
	t.Parallel()
	files, err := osfs.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	root := server.Folder{Path: "/", FS: files}
	for says, list := range map[string][]server.Folder{
		"there is no folder": nil,
		`"/a" is no path`:    {{Path: "/a", FS: files}},
		`"/a/" is no path`:   {root, {Path: "/a/"}},
		`"a" is no path`:     {root, {Path: "a"}},
		`"/" is no path`:     {root, {Path: "/"}},
		`"/../a" is no path`: {root, {Path: "/../a"}},
		`two folders "/A"`:   {root, {Path: "/a"}, {Path: "/A"}},
		"/ has no files":     {{Path: "/"}},
		"unknown request":    {root, {Path: "/a", Policy: server.Policy{Denied: []string{"fly"}}}},
		`the pattern ""`:     {root, {Path: "/a", RefusedNames: []string{""}}},
		`the pattern "[a"`:   {root, {Path: "/a", RefusedNames: []string{"[a"}}},
		`the pattern "a*\\"`: {root, {Path: "/a", RefusedNames: []string{"*", `a*\`}}},
		"cannot be kept in":  {root, {Path: "/a", FS: memfs.New(0)}},
	} {
		_, err := server.NewFolders(list...)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %s", err, says)
		}
	}
}

// composed is a tree with a folder, and a rule about a directory that nobody uses.
func composed(t *testing.T) server.FS {
	t.Helper()
	tree, err := server.NewFolders(server.Folder{Path: "/", FS: serving(t, osfs.New)},
		server.Folder{Path: "/folder/of/it", FS: serving(t, osfs.NewAtomic)},
		server.Folder{Path: "/folder/of/it/not used", Policy: server.Policy{ReadOnly: true}})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// TestFoldersConform: a folder is what any server promises, and so is the directory around it.
func TestFoldersConform(t *testing.T) {
	for _, dir := range []string{"/", "/folder/of/it"} {
		t.Run(dir, func(t *testing.T) {
			files := composed(t)
			sftptest.Conformance{
				Dial: func(t testing.TB) io.ReadWriteCloser {
					ours, theirs := net.Pipe()
					done := make(chan error, 1)
					go func() { done <- server.Serve(context.Background(), theirs, files, nil) }()
					t.Cleanup(func() {
						ours.Close()
						<-done
					})
					return ours
				},
				Dir: dir,
			}.Run(t)
		})
	}
}

// TestFoldersBeneath: what must follow no link beneath a directory follows none to a folder.
func TestFoldersBeneath(t *testing.T) {
	t.Parallel()
	files := composed(t)
	client := connected(t, files)
	for _, link := range []string{"/down", "/folder/of/it/loop"} {
		if err := client.Symlink("folder", link); err != nil {
			t.Fatal(err)
		}
	}
	if err := client.WriteFile("/folder/of/it/f", []byte("f"), 0o644); err != nil {
		t.Fatal(err)
	}
	stat := files.(server.Lstater)
	for name, follows := range map[string]bool{"/folder/of/it/f": false, "/down/of/it/f": true} {
		_, err := stat.Lstat(server.WithBeneath(t.Context(), "/"), name)
		if (err != nil) != follows {
			t.Errorf("%s beneath /: %v", name, err)
		}
		if _, err := stat.Lstat(t.Context(), name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := stat.Lstat(server.WithBeneath(t.Context(), "/down"), "/down/of/it/f"); err != nil {
		t.Errorf("the directory itself is followed: %v", err)
	}
}

// swapping is a directory in which something happens just after the links of a path were resolved.
type swapping struct {
	*osfs.FS
	swap func()
}

func (s swapping) RealPath(ctx context.Context, name string) (string, error) {
	defer s.swap()
	return s.FS.RealPath(ctx, name)
}

// A link that takes the place of a directory between the decision which folder a path is in and the
// request there leads into no folder that is forbidden.
func TestFoldersWhileLinksAreSwapped(t *testing.T) {
	root := t.TempDir()
	files, err := osfs.New(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { files.Close() })
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(root, "free", "dir")
	must(os.MkdirAll(dir, 0o755))
	must(os.WriteFile(filepath.Join(dir, "f"), []byte("free"), 0o644))
	must(os.Mkdir(filepath.Join(root, "in"), 0o755))
	must(os.WriteFile(filepath.Join(root, "in", "f"), []byte("secret"), 0o644))
	var asked, at atomic.Int64
	tree, err := server.NewFolders(server.Folder{Path: "/", FS: swapping{files, func() {
		if asked.Add(1) == at.Load() {
			if err := errors.Join(os.Rename(dir, dir+"-aside"), os.Symlink("../in", dir)); err != nil {
				t.Error(err)
			}
		}
	}}}, server.Folder{Path: "/in", Policy: server.Policy{Denied: []string{"read", "opendir"}}})
	must(err)
	client := connected(t, tree)
	if data, err := client.ReadFile("/free/dir/f"); err != nil || string(data) != "free" {
		t.Fatalf("%q, %v", data, err)
	}
	last := asked.Load()
	if last == 0 {
		t.Fatal("no link was looked for")
	}
	for at.Load() < last {
		asked.Store(0)
		at.Add(1)
		if data, err := client.ReadFile("/free/dir/f"); err == nil && string(data) != "free" {
			t.Errorf("swapped at query %d of %d: it is read through the link: %q", at.Load(), last, data)
		}
		must(os.Remove(dir))
		must(os.Rename(dir+"-aside", dir))
	}
}
