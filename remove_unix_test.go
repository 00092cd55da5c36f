//go:build linux || darwin || freebsd

package usftp_test

import (
	"context"
	"io/fs"
	"iter"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/osfs"
)

// listHost calls listing before it lists a directory.
type listHost struct {
	*osfs.FS
	listing func(name string)
}

func (h listHost) List(ctx context.Context, name string) iter.Seq2[fs.FileInfo, error] {
	h.listing(name)
	return h.FS.List(ctx, name)
}

// On a server with beneath@usftp nothing is removed through a link that takes a directory's place,
// not even that of the directory to be removed.
func TestRemoveAllBeneath(t *testing.T) {
	for _, test := range []struct {
		name, swapped string
		in            bool // its contents only
	}{
		{"top", "top", false}, {"top", "top/d", false}, {"/top/", "top/d/e", false},
		{"./top", "top", false}, {"./top", "top/d", true}, {"top/.", "top/d", true},
		{"top", "top", true}, {".", "top/d", true},
	} {
		t.Run(test.name+" "+test.swapped, func(t *testing.T) {
			dir := t.TempDir()
			check := func(err error) {
				t.Helper()
				if err != nil {
					t.Error(err)
				}
			}
			for _, name := range []string{"top/d/e/f", "top/f", "outside/f", "outside/e/f"} {
				name = filepath.Join(dir, "home", name)
				if strings.Contains(name, "outside") {
					name = strings.Replace(name, "home/", "", 1)
				}
				check(os.MkdirAll(filepath.Dir(name), 0o755))
				check(os.WriteFile(name, nil, 0o644))
			}
			files, err := osfs.New(dir)
			check(err)
			defer files.Close()
			swapped := false
			host := listHost{files, func(name string) {
				if filepath.Clean(name) != "/home/"+test.swapped || swapped {
					return
				}
				swapped = true
				at := filepath.Join(dir, "home", test.swapped)
				check(os.Rename(at, filepath.Join(dir, "aside")))
				up := strings.Repeat("../", strings.Count(test.swapped, "/")+1)
				check(os.Symlink(up+"outside", at))
			}}
			near, far := net.Pipe()
			served := make(chan struct{})
			go func() {
				defer close(served)
				server.Serve(context.Background(), far, host,
					&server.Options{Policy: server.Policy{Home: "/home"}})
			}()
			defer func() { <-served }()
			client, err := usftp.NewClientPipe(near, near)
			check(err)
			defer client.Close()
			if name := strings.Replace(test.name, "/top/", "/home/top/", 1); test.in {
				err = client.RemoveAllIn(name)
			} else {
				err = client.RemoveAll(name)
			}
			if err == nil || !swapped {
				t.Errorf("swapped %v, ended with %v", swapped, err)
			}
			for _, name := range []string{"outside/f", "outside/e/f"} {
				if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// RemoveAllIn refuses a link however it is spelled, as RemoveAll removes nothing but the link.
func TestRemoveAllInOfALink(t *testing.T) {
	client, dir := startServer(t), t.TempDir()
	link, kept := filepath.Join(dir, "link"), filepath.Join(dir, "real", "kept")
	ok(t, os.Mkdir(filepath.Dir(kept), 0o755))
	ok(t, os.WriteFile(kept, nil, 0o644))
	ok(t, os.Symlink("real", link))
	for _, name := range []string{link, link + "/", link + "//"} {
		if err := client.RemoveAllIn(name); err == nil {
			t.Errorf("%s was emptied", name)
		}
		if _, err := os.Stat(kept); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	ok(t, client.RemoveAllIn(filepath.Dir(kept)+"/"))
	if _, err := os.Stat(kept); err == nil {
		t.Error("the directory was not emptied")
	}
}
