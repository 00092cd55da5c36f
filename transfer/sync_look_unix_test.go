//go:build linux || darwin || freebsd

package transfer_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// TestSyncLooksAtDirectories: on a host without beneath@usftp a sync looks at a directory before
// the first change in it, and once more before it sets the directory's own attributes. It changes
// nothing in one that a link has replaced since it was listed.
func TestSyncLooksAtDirectories(t *testing.T) {
	for name, change := range map[string]func(in string) error{
		"changed": func(in string) error {
			return os.WriteFile(filepath.Join(in, "file"), []byte("changed"), 0o644)
		},
		"mode": func(in string) error { return os.Chmod(filepath.Join(in, "file"), 0o600) },
		"new": func(in string) error {
			return os.WriteFile(filepath.Join(in, "new"), nil, 0o644)
		},
		"directory": func(in string) error { return os.Mkdir(filepath.Join(in, "new"), 0o755) },
		"type": func(in string) error {
			return errors.Join(os.Remove(filepath.Join(in, "file")),
				os.Mkdir(filepath.Join(in, "file"), 0o755))
		},
		"link": func(in string) error { return os.Symlink("to", filepath.Join(in, "new")) },
	} {
		for _, way := range []struct {
			swapped  string
			followed bool
		}{{}, {"/dst/d/e", false}, {"/dst/d/e", true}, {"/dst/d", false}, {"/dst/d", true}} {
			swap := way.swapped != ""
			t.Run(name, func(t *testing.T) {
				b := newBench(t, sftptest.Script{Extensions: sftptest.OpenSSHExtensions(),
					FollowLinks: way.followed}, sftptest.LinkConfig{}) // also by LSTAT
				src := t.TempDir()
				fill(t, src, "d/e/file", "d/e/file2")
				j := &syncJob{direction: upload, far: b.host, src: src, dst: "/dst"}
				j.must(t)
				b.server.Files.WriteFile("/outside/file", []byte("x"))
				b.server.Files.WriteFile("/outside/e/file", []byte("x"))
				if err := errors.Join(change(filepath.Join(src, "d/e")),
					os.WriteFile(filepath.Join(src, "d/e/file2"), []byte("changed"), 0o644)); err != nil {
					t.Fatal(err)
				}
				before := b.server.Files.List()
				if swap {
					b.server.AddFaults(sftptest.Fault{On: wire.TypeClose, Path: "/dst/d/e", Times: 1,
						Do: sftptest.Call("swap", func(sftptest.Request) {
							b.server.Files.Remove(way.swapped)
							b.server.Files.Symlink("/outside", way.swapped)
						})})
				}
				b.server.ForgetRequests()
				_, err := j.run(t)
				if swap == (err == nil) {
					t.Errorf("%+v, ended with %v", way, err)
				}
				looks := 0
				for _, r := range b.server.Requests(wire.TypeLstat) {
					if r.Path == "/dst/d/e" {
						looks++
					}
				}
				if !swap && looks != 2 {
					t.Errorf("it looked %d times", looks)
				}
				for _, name := range []string{"/outside/file", "/outside/e/file"} {
					attrs, err := b.server.Files.Lstat(name)
					if err != nil || attrs.Size != 1 || attrs.Permissions&0o777 != 0o644 {
						t.Errorf("outside: %s: %+v, %v", name, attrs, err)
					}
				}
				for _, name := range b.server.Files.List() {
					if strings.HasPrefix(name, "/outside") && !slices.Contains(before, name) {
						t.Errorf("it made %s", name)
					}
				}
			})
		}
	}
}
