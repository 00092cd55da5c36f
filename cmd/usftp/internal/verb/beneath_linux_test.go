package verb

import (
	"context"
	"io/fs"
	"iter"
	"net"
	"os"
	"path"
	"strings"
	"sync"
	"testing"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// A swapper is a host on which somebody puts a link in the place of a directory just when a request
// has arrived, after all that a client could look at.
type swapper struct {
	*osfs.FS
	arrived func(request, name string)
}

func (s *swapper) List(ctx context.Context, name string) iter.Seq2[fs.FileInfo, error] {
	s.arrived("opendir", name)
	return s.FS.List(ctx, name)
}

func (s *swapper) Setstat(ctx context.Context, name string, attrs wire.Attrs) error {
	s.arrived("setstat", name)
	return s.FS.Setstat(ctx, name, attrs)
}

func (s *swapper) Remove(ctx context.Context, name string) error {
	s.arrived("remove", name)
	return s.FS.Remove(ctx, name)
}

func (s *swapper) Rmdir(ctx context.Context, name string) error {
	s.arrived("rmdir", name)
	return s.FS.Rmdir(ctx, name)
}

// changing are the verbs that change trees.
var changing = map[string]func(r *rig, operand string) error{
	"rm": func(r *rig, operand string) error {
		return Remove(context.Background(), r.Env, RemoveOptions{Recursive: true},
			[]string{operand})
	},
	"find": func(r *rig, operand string) error {
		e, err := ParseExpression([]string{"-delete"})
		if err != nil {
			return err
		}
		return Find(context.Background(), r.Env, e, []string{operand})
	},
	"chmod": func(r *rig, operand string) error {
		return ChangeMode(context.Background(), r.Env,
			ChangeModeOptions{Recursive: true, Mode: "711"}, []string{operand})
	},
	"chown": func(r *rig, operand string) error {
		return ChangeOwner(context.Background(), r.Env,
			ChangeOwnerOptions{Recursive: true, Owner: "1:1"}, []string{operand})
	},
}

// On our server nothing outside of an operand is changed, whatever links are swapped in and when.
func TestChangesBeneathOperands(t *testing.T) {
	for _, test := range []struct{ verb, operand, request, name, dir string }{
		{"rm", "top", "opendir", "/top", ""},
		{"rm", "/top/", "opendir", "/top/d", ""},
		{"rm", "top", "remove", "/top/d/f", ""},
		{"rm", "top", "remove", "/top/d/f", "/."}, // from a shell's directory
		{"chmod", "link", "setstat", "/link/d/f", "/"},
		{"rm", "./top", "rmdir", "/top/d/e", ""},
		{"find", "top", "remove", "/top/d/f", ""},
		{"find", "./top/.", "rmdir", "/top/d/e", ""},
		{"chmod", "top", "opendir", "/top/d", ""},
		{"chmod", "link", "setstat", "/link/d/f", ""},
		{"chmod", "/top/", "setstat", "/top/d/e", ""},
		{"chown", "top", "opendir", "/top", ""},
		{"chown", "top/", "setstat", "/top/d/f", ""},
		{"chown", "top/.", "setstat", "/top/d/e/f", ""},
	} {
		t.Run(test.verb+" "+test.operand+" "+test.request, func(t *testing.T) {
			dir := t.TempDir()
			for _, name := range []string{"top/d/e/f", "top/d/f", "top/f", "outside/d/e/f",
				"outside/d/f", "outside/e/f", "outside/f"} {
				writeFile(t, dir+"/"+name, "x")
			}
			ok(t, os.Symlink("top", dir+"/link"))
			before, _ := tool(t, dir, "find", "outside", "-printf", "%p %m %u\n")
			var once sync.Once
			swapped := false
			client := ourServer(t, dir, func(request, name string) {
				if request != test.request || !sameName(name, test.name) {
					return
				}
				once.Do(func() {
					swapped = true
					at := strings.TrimPrefix(strings.Replace(test.name, "/link", "/top", 1), "/")
					if request != "opendir" {
						at = at[:strings.LastIndex(at, "/")]
					}
					ok(t, os.Rename(dir+"/"+at, dir+"/aside"))
					ok(t, os.Symlink(strings.Repeat("../", strings.Count(at, "/"))+"outside",
						dir+"/"+at))
				})
			})
			r := newRig(client)
			r.Dir = test.dir
			err := changing[test.verb](r, test.operand)
			_, said := r.take()
			if !swapped {
				t.Fatalf("no such request was made: %v, %s", err, said)
			}
			if codeOf(err) != 1 {
				t.Errorf("it ended with %v, %q", err, said)
			}
			if after, _ := tool(t, dir, "find", "outside", "-printf", "%p %m %u\n"); after != before {
				t.Errorf("outside:\n%s, before\n%s", after, before)
			}
		})
	}
}

// sameName reports whether a request's path, without elements that are ".", is a name.
func sameName(request, name string) bool {
	return path.Clean(request) == name
}

// ourServer is a client of our server, which calls arrived before it does something.
func ourServer(t *testing.T, dir string, arrived func(request, name string)) *usftp.Client {
	t.Helper()
	files, err := osfs.New(dir)
	ok(t, err)
	near, far := net.Pipe()
	served := make(chan struct{})
	go func() {
		defer close(served)
		server.Serve(context.Background(), far, &swapper{files, arrived}, &server.Options{})
	}()
	client, err := usftp.NewClientPipe(near, near)
	ok(t, err)
	t.Cleanup(func() {
		client.Close()
		<-served
		files.Close()
	})
	return client
}

// On other servers a directory is looked at once it has been listed, and nothing is done in one
// that a link has replaced.
func TestChangesLookAtDirectories(t *testing.T) {
	for name, run := range changing {
		for _, version := range []string{openSSH, "SSH-2.0-other", "SSH-2.0-mod_sftp"} {
			t.Run(name+" "+version, func(t *testing.T) {
				s := sftptest.NewServer(t, sftptest.Script{
					FollowLinks: version == "SSH-2.0-mod_sftp"}) // also by LSTAT
				for _, name := range []string{"/top/d/f", "/top/f", "/outside/f"} {
					s.Files.WriteFile(name, []byte("x"))
				}
				s.AddFaults(sftptest.Fault{On: wire.TypeLstat, Path: "/top/d", Times: 1,
					Do: sftptest.Call("swap", func(sftptest.Request) {
						s.Files.Remove("/top/d")
						s.Files.Symlink("/outside", "/top/d")
					})})
				client := clientOf(t, s.Dial(sftptest.LinkConfig{}), usftp.WithServerVersion(version))
				r := newRig(client)
				err := run(r, "/top")
				if _, said := r.take(); codeOf(err) != 1 || !strings.Contains(said, "link") {
					t.Errorf("it ended with %v, %q", err, said)
				}
				attrs, err := s.Files.Lstat("/outside/f")
				if err != nil || attrs.Permissions&0o777 == 0o711 || attrs.UID == 1 {
					t.Errorf("outside: %+v, %v", attrs, err)
				}
				if n := len(s.Requests(wire.TypeLstat)); n > 4 {
					t.Errorf("it asked LSTAT %d times for the operand and two directories", n)
				}
			})
		}
	}
}
