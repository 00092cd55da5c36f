package usftp_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/wire"
)

// TestEveryAsyncOperation starts each operation once, on OpenSSH's server, and looks at what it has
// done.
func TestEveryAsyncOperation(t *testing.T) {
	client := startServer(t)
	dir := t.TempDir()
	name := func(base string) string { return filepath.Join(dir, base) }
	done := make(map[string]bool) // by the names of the methods
	called := func(methods ...string) {
		for _, m := range methods {
			done[m] = true
		}
	}
	wait := func(p *usftp.Pending[struct{}]) { t.Helper(); must[struct{}](t)(p.Wait()) }
	when := time.Unix(1_600_000_000, 0)
	a := client.Async()

	f := must[*usftp.File](t)(a.Create(name("f")).Wait())
	af := f.Async()
	if n := must[int](t)(af.WriteAt([]byte("0123456789"), 0).Wait()); n != 10 {
		t.Error(n)
	}
	p := make([]byte, 3)
	if n := must[int](t)(af.ReadAt(p, 4).Wait()); n != 3 || !bytes.Equal(p, []byte("456")) {
		t.Error(n, p)
	}
	wait(af.Sync())
	wait(af.Truncate(8))
	wait(af.Chmod(0o640))
	wait(af.Chown(os.Getuid(), os.Getgid()))
	wait(af.Chtimes(when, when))
	wait(af.SetExtendedData(nil))
	wait(af.SetAttrs(usftp.NewAttrs{SetMode: true, Mode: 0o600}))
	if stat := must[*usftp.FileStat](t)(af.Stat().Wait()); stat.Size != 8 ||
		!stat.ModTime().Equal(when) || stat.FileMode() != 0o600 || f.Size() != 8 {
		t.Errorf("%+v", stat)
	}
	if stat := must[usftp.StatVFS](t)(af.StatVFS().Wait()); stat.Namemax == 0 {
		t.Errorf("%+v", stat)
	}
	wait(af.Close())
	must[*usftp.File](t)(af.OpenRead().Wait())
	wait(af.Close())
	must[*usftp.File](t)(af.Open(os.O_RDWR, 0).Wait())
	wait(af.Close())
	called("File.SetAttrs", "File.WriteAt", "File.ReadAt", "File.Sync", "File.Truncate",
		"File.Chmod", "File.Chown", "File.Chtimes", "File.SetExtendedData",
		"File.Stat", "File.StatVFS", "File.Close", "File.OpenRead", "File.Open", "Client.Create")

	wait(a.Mkdir(name("d")))
	wait(a.Rename(name("f"), name("d/f")))
	wait(a.PosixRename(name("d/f"), name("g")))
	wait(a.Link(name("g"), name("h")))
	wait(a.Symlink("g", name("l")))
	wait(a.Chmod(name("g"), 0o600))
	wait(a.Chown(name("g"), os.Getuid(), os.Getgid()))
	wait(a.Truncate(name("g"), 3))
	wait(a.Chtimes(name("g"), when, when))
	wait(a.SetExtendedData(name("g"), nil))
	wait(a.Lchown(name("l"), os.Getuid(), os.Getgid()))
	wait(a.Lchtimes(name("l"), when, when))
	wait(a.LSetAttrs(name("l"), usftp.NewAttrs{SetTimes: true, Atime: when, Mtime: when}))
	wait(a.SetAttrs(name("l"), usftp.NewAttrs{SetTimes: true, Atime: when, Mtime: when}))
	a.Lchmod(name("l"), 0o777).Wait() // Linux refuses it
	if info := must[fs.FileInfo](t)(a.Stat(name("l")).Wait()); info.Size() != 3 ||
		!info.ModTime().Equal(when) {
		t.Error(info)
	}
	if info := must[fs.FileInfo](t)(a.Lstat(name("l")).Wait()); info.Mode().Type() != fs.ModeSymlink || !info.ModTime().Equal(when) {
		t.Error(info)
	}
	if target := must[string](t)(a.ReadLink(name("l")).Wait()); target != "g" {
		t.Error(target)
	}
	if path := must[string](t)(a.RealPath(name("d/..")).Wait()); path != must[string](t)(filepath.EvalSymlinks(dir)) {
		t.Error(path)
	}
	if stat := must[usftp.StatVFS](t)(a.StatVFS(dir).Wait()); stat.Namemax == 0 {
		t.Errorf("%+v", stat)
	}
	if reply := must[[]byte](t)(a.Extended(wire.ExtLimits, nil).Wait()); len(reply) != 32 {
		t.Errorf("%x", reply)
	}
	for _, opened := range []*usftp.Pending[*usftp.File]{a.Open(name("g")),
		a.OpenFile(name("g"), os.O_WRONLY, 0)} {
		wait(must[*usftp.File](t)(opened.Wait()).Async().Close())
	}
	wait(usftp.NewFile(client, name("h")).Async().Remove())
	wait(a.Remove(name("l")))
	wait(a.Remove(name("g")))
	wait(a.RemoveDirectory(name("d")))
	if left := must[[]os.DirEntry](t)(os.ReadDir(dir)); len(left) > 0 {
		t.Error(left)
	}
	called("Client.Mkdir", "Client.Rename", "Client.PosixRename", "Client.Link", "Client.Symlink",
		"Client.Chmod", "Client.Chown", "Client.Truncate",
		"Client.Chtimes", "Client.SetExtendedData", "Client.Lchown", "Client.Lchtimes", "Client.Lchmod", "Client.SetAttrs", "Client.LSetAttrs", "Client.Stat", "Client.Lstat",
		"Client.ReadLink", "Client.RealPath", "Client.StatVFS", "Client.Extended", "Client.Open", "Client.OpenFile", "File.Remove",
		"Client.Remove", "Client.RemoveDirectory")

	for prefix, of := range map[string]reflect.Type{"Client.": reflect.TypeFor[usftp.AsyncClient](),
		"File.": reflect.TypeFor[usftp.AsyncFile]()} {
		for i := range of.NumMethod() {
			if method := prefix + of.Method(i).Name; !done[method] {
				t.Errorf("Async%s was not called", method)
			}
		}
	}
}
