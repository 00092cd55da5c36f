package usftp_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// TestEveryAsyncOperation starts each operation once on OpenSSH's server and checks what it did.
func TestEveryAsyncOperation(t *testing.T) {
	client := startServer(t)
	dir := t.TempDir()
	name := func(base string) string { return filepath.Join(dir, base) }
	done := make(map[string]bool) // by method name
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
	if stat := must[*usftp.StatVFS](t)(af.StatVFS().Wait()); stat.Namemax == 0 {
		t.Errorf("%+v", stat)
	}
	to := must[*usftp.File](t)(a.Create(name("to")).Wait())
	wait(af.CopyData(2, 5, to, 1))
	if got := must[[]byte](t)(client.ReadFile(name("to"))); string(got) != "\x0023456" {
		t.Errorf("%q", got)
	}
	if _, err := af.CopyData(2, 100, to, 1).Wait(); err != nil &&
		err != io.EOF { // OpenSSH 9.2 says OK
		t.Errorf("copying more than there is: %v", err)
	}
	for _, bad := range [][3]int64{{-1, 1, 0}, {0, 0, 0}, {0, 64<<20 + 1, 0}, {0, 1, -1}} {
		if _, err := af.CopyData(bad[0], bad[1], to, bad[2]).Wait(); !errors.Is(err,
			fs.ErrInvalid) {
			t.Errorf("%d: %v", bad, err)
		}
	}
	wait(to.Async().Remove())
	wait(to.Async().Close())
	if _, err := af.CopyData(0, 1, to, 0).Wait(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("to a closed file: %v", err)
	}
	wait(af.Close())
	must[*usftp.File](t)(af.OpenRead().Wait())
	wait(af.Close())
	must[*usftp.File](t)(af.Open(os.O_RDWR, 0).Wait())
	wait(af.Abandon())
	called("File.CopyData", "File.SetAttrs", "File.WriteAt", "File.ReadAt", "File.Sync",
		"File.Truncate",
		"File.Chmod", "File.Chown", "File.Chtimes", "File.SetExtendedData",
		"File.Stat", "File.StatVFS", "File.Close", "File.Abandon", "File.OpenRead", "File.Open", "Client.Create")

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
	wait(a.LsetAttrs(name("l"), usftp.NewAttrs{SetTimes: true, Atime: when, Mtime: when}))
	wait(a.SetAttrs(name("l"), usftp.NewAttrs{SetTimes: true, Atime: when, Mtime: when}))
	a.Lchmod(name("l"), 0o777).Wait() // Linux refuses it
	if info := must[fs.FileInfo](t)(a.Stat(name("l")).Wait()); info.Size() != 3 ||
		!info.ModTime().Equal(when) {
		t.Error(info)
	}
	if info := must[fs.FileInfo](t)(
		a.Lstat(name("l")).Wait()); info.Mode().Type() != fs.ModeSymlink ||
		!info.ModTime().Equal(when) {
		t.Error(info)
	}
	if target := must[string](t)(a.ReadLink(name("l")).Wait()); target != "g" {
		t.Error(target)
	}
	if path := must[string](t)(a.RealPath(name("d/..")).Wait()); path != must[string](t)(
		filepath.EvalSymlinks(dir)) {
		t.Error(path)
	}
	if stat := must[*usftp.StatVFS](t)(a.StatVFS(dir).Wait()); stat.Namemax == 0 {
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
		"Client.Chtimes", "Client.SetExtendedData", "Client.Lchown", "Client.Lchtimes",
		"Client.Lchmod", "Client.SetAttrs", "Client.LsetAttrs", "Client.Stat", "Client.Lstat",
		"Client.ReadLink", "Client.RealPath", "Client.StatVFS", "Client.Extended", "Client.Open",
		"Client.OpenFile", "File.Remove",
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

type anyCall func(*usftp.Client, *usftp.File) error

// clientCalls are the methods of Client that wait for a server.
var clientCalls = map[string]anyCall{
	"CheckFile": func(c *usftp.Client, _ *usftp.File) error {
		_, err := c.CheckFile("/f", usftp.CheckFile{})
		return err
	},
	"Chmod": func(c *usftp.Client, _ *usftp.File) error { return c.Chmod("/f", 0) },
	"Chown": func(c *usftp.Client, _ *usftp.File) error { return c.Chown("/f", 1, 1) },
	"Chtimes": func(c *usftp.Client, _ *usftp.File) error {
		return c.Chtimes("/f", time.Now(),
			time.Now())
	},
	"CopyFile": func(c *usftp.Client, _ *usftp.File) error {
		_, err := c.CopyFile("/f", "/g")
		return err
	},
	"Create": func(c *usftp.Client, _ *usftp.File) error {
		_, err := c.Create("/g")
		return err
	},
	"CreateTemp": func(c *usftp.Client, _ *usftp.File) error {
		_, err := c.CreateTemp("/", "x")
		return err
	},
	"ExpandPath": func(c *usftp.Client, _ *usftp.File) error {
		_, err := c.ExpandPath("~")
		return err
	},
	"Extended": func(c *usftp.Client, _ *usftp.File) error {
		_, err := c.Extended(wire.ExtLimits, nil)
		return err
	},
	"Getwd": func(c *usftp.Client, _ *usftp.File) error {
		_, err := c.Getwd()
		return err
	},
	"Glob": func(c *usftp.Client, _ *usftp.File) error {
		_, err := c.Glob("/*")
		return err
	},
	"HomeDirectory": func(c *usftp.Client, _ *usftp.File) error {
		_, err := c.HomeDirectory("me")
		return err
	},
	"Lchmod": func(c *usftp.Client, _ *usftp.File) error { return c.Lchmod("/f", 0) },
	"Lchown": func(c *usftp.Client, _ *usftp.File) error { return c.Lchown("/f", 1, 1) },
	"Lchtimes": func(c *usftp.Client, _ *usftp.File) error {
		return c.Lchtimes("/f",
			time.Now(), time.Now())
	},
	"Link": func(c *usftp.Client, _ *usftp.File) error { return c.Link("/f", "/g") },
	"Lstat": func(c *usftp.Client, _ *usftp.File) error {
		_, err := c.Lstat("/f")
		return err
	},
	"Mkdir":    func(c *usftp.Client, _ *usftp.File) error { return c.Mkdir("/d") },
	"MkdirAll": func(c *usftp.Client, _ *usftp.File) error { return c.MkdirAll("/d/e") },
	"MkdirTemp": func(c *usftp.Client, _ *usftp.File) error {
		_, err := c.MkdirTemp("/", "x")
		return err
	},
	"Open": func(c *usftp.Client, _ *usftp.File) error {
		_, err := c.Open("/f")
		return err
	},
	"OpenFile": func(c *usftp.Client, _ *usftp.File) error {
		_, err := c.OpenFile("/f", os.O_RDWR, 0)
		return err
	},
	"OpenRead": func(c *usftp.Client, _ *usftp.File) error {
		_, err := c.OpenRead("/f")
		return err
	},
	"PosixRename": func(c *usftp.Client, _ *usftp.File) error {
		return c.PosixRename("/f", "/g")
	},
	"ReadDir": func(c *usftp.Client, _ *usftp.File) error {
		_, err := c.ReadDir("/")
		return err
	},
	"ReadDirLimit": func(c *usftp.Client, _ *usftp.File) error {
		_, err := c.ReadDirLimit("/", 0, nil)
		return err
	},
	"ReadFile": func(c *usftp.Client, _ *usftp.File) error {
		_, err := c.ReadFile("/f")
		return err
	},
	"ReadLink": func(c *usftp.Client, _ *usftp.File) error {
		_, err := c.ReadLink("/f")
		return err
	},
	"RealPath": func(c *usftp.Client, _ *usftp.File) error {
		_, err := c.RealPath("/f")
		return err
	},
	"Remove":      func(c *usftp.Client, _ *usftp.File) error { return c.Remove("/f") },
	"RemoveAll":   func(c *usftp.Client, _ *usftp.File) error { return c.RemoveAll("/f") },
	"RemoveAllIn": func(c *usftp.Client, _ *usftp.File) error { return c.RemoveAllIn("/") },
	"RemoveDirectory": func(c *usftp.Client, _ *usftp.File) error {
		return c.RemoveDirectory("/d")
	},
	"Rename": func(c *usftp.Client, _ *usftp.File) error { return c.Rename("/f", "/g") },
	"SetExtendedData": func(c *usftp.Client, _ *usftp.File) error {
		return c.SetExtendedData("/f", nil)
	},
	"Stat": func(c *usftp.Client, _ *usftp.File) error {
		_, err := c.Stat("/f")
		return err
	},
	"StatVFS": func(c *usftp.Client, _ *usftp.File) error {
		_, err := c.StatVFS("/f")
		return err
	},
	"Symlink":  func(c *usftp.Client, _ *usftp.File) error { return c.Symlink("/f", "/g") },
	"Truncate": func(c *usftp.Client, _ *usftp.File) error { return c.Truncate("/f", 0) },
	"UsersGroups": func(c *usftp.Client, _ *usftp.File) error {
		_, _, err := c.UsersGroups([]uint32{1}, nil)
		return err
	},
	"WriteFile": func(c *usftp.Client, _ *usftp.File) error {
		return c.WriteFile("/f", nil, 0)
	},
	"MkdirPerm": func(c *usftp.Client, _ *usftp.File) error {
		return c.MkdirPerm("/d", 0o700)
	},
	"LsetAttrs": func(c *usftp.Client, _ *usftp.File) error {
		return c.LsetAttrs("/f", usftp.NewAttrs{SetMode: true})
	},
	"SetAttrs": func(c *usftp.Client, _ *usftp.File) error {
		return c.SetAttrs("/f", usftp.NewAttrs{SetMode: true})
	},
	"Entries": func(c *usftp.Client, _ *usftp.File) (err error) {
		for _, err = range c.Entries("/") {
		}
		return err
	},
	"Walk": func(c *usftp.Client, _ *usftp.File) (err error) {
		for _, err = range c.Walk("/") {
		}
		return err
	},
	"WalkDir": func(c *usftp.Client, _ *usftp.File) error {
		return c.WalkDir("/", func(_ string, _ fs.DirEntry, err error) error { return err })
	},
	"Async": func(c *usftp.Client, _ *usftp.File) error {
		_, err := c.Async().Stat("/f").Wait()
		return err
	},
	"Raw": func(c *usftp.Client, _ *usftp.File) error {
		_, err := c.Raw().Opendir("/").Wait()
		return err
	},
	"private.Client.Find": func(c *usftp.Client, _ *usftp.File) error {
		_, err := private.OfClient(c).Find("/f")
		return err
	},
	"private.Client.Look": func(c *usftp.Client, _ *usftp.File) error {
		_, err := private.OfClient(c).Look("/f")
		return err
	},
	"private.Client.Upload": func(c *usftp.Client, _ *usftp.File) error {
		_, err := private.OfClient(c).Upload("/f")
		return err
	},
	"private.Client.StartPut": func(c *usftp.Client, _ *usftp.File) error {
		return private.OfClient(c).StartPut("/f", "t", make([]byte, 10), 0o600, usftp.NewAttrs{},
			false)()
	},
	"private.Client.GetFile": func(c *usftp.Client, _ *usftp.File) error {
		_, err := private.OfClient(c).GetFile("/f", 10, func() []byte { return make([]byte, 10) })
		return err
	},
	"private.Client.StartLook": func(c *usftp.Client, _ *usftp.File) error {
		_, err := private.OfClient(c).StartLook("/f")()
		return err
	},
	"private.Client.Move": func(c *usftp.Client, _ *usftp.File) error {
		return private.OfClient(c).Move("/f", "/g", true)
	},
	"private.Client.ReplaceByLink": func(c *usftp.Client, _ *usftp.File) error {
		return private.OfClient(c).ReplaceByLink("f", "/g", "/h", "/i")
	},
	"FS": func(c *usftp.Client, _ *usftp.File) error { _, err := c.FS().Open("f"); return err },
	"DirFS": func(c *usftp.Client, _ *usftp.File) error {
		_, err := c.DirFS("/").ReadDir(".")
		return err
	},
}

// noClientCalls are the methods of Client that send no request, or that no context limits.
var noClientCalls = []string{"Ping", "Close", "Done", "Wait", "WithContext", "Stats",
	"HasExtension", "HasPosixRename", "HasCheckFile", "HasChunks",
	"CheckFileAlgorithms",
	"Extensions", "Join", "Limits", "private.Client.DataSizes", "private.Client.WorksInOrder",
	"private.Client.LosesWrites",
	"private.Client.ReadsOnce", "private.Client.StartSmall", "private.Client.Touches",
	"private.Client.EmptiesToCut", "private.Client.SetsByName", "private.Client.StatsByName",
	"private.Client.LastTime",
	"private.Client.Beneath", "private.Client.Alike", "private.Client.Heard",
	"private.Client.Overdue",
	"private.Client.KnowsLinks", "private.Client.KeepsUploads", "private.Client.ResolvesLinks",
	"private.Client.LinksFromLogin",
	"private.Client.LinksTo", "private.Client.OneHandle", "private.Client.OpenHandles",
	"private.Client.PutsFiles",
	"private.Client.GetsFiles", "private.Client.OnWindows"}

// fileCalls are the methods of File that wait for a server.
var fileCalls = map[string]anyCall{
	"Read": func(_ *usftp.Client, f *usftp.File) error {
		_, err := f.Read(make([]byte, 10))
		return err
	},
	"ReadAt": func(_ *usftp.Client, f *usftp.File) error {
		_, err := f.ReadAt(make([]byte, 1<<20), 0)
		return err
	},
	"WriteTo": func(_ *usftp.Client, f *usftp.File) error {
		_, err := f.WriteTo(io.Discard)
		return err
	},
	"Write": func(_ *usftp.Client, f *usftp.File) error {
		_, err := f.Write(make([]byte, 10))
		return err
	},
	"WriteAt": func(_ *usftp.Client, f *usftp.File) error {
		_, err := f.WriteAt(make([]byte, 1<<20), 0)
		return err
	},
	"ReadFrom": func(_ *usftp.Client, f *usftp.File) error {
		_, err := f.ReadFrom(zeros{})
		return err
	},
	"ReadFromWithConcurrency": func(_ *usftp.Client, f *usftp.File) error {
		_, err := f.ReadFromWithConcurrency(zeros{}, 1)
		return err
	},
	"Stat": func(_ *usftp.Client, f *usftp.File) error {
		_, err := f.Stat()
		return err
	},
	"Sync": func(_ *usftp.Client, f *usftp.File) error { return f.Sync() },
	"StatVFS": func(_ *usftp.Client, f *usftp.File) error {
		_, err := f.StatVFS()
		return err
	},
	"CheckFile": func(_ *usftp.Client, f *usftp.File) error {
		_, err := f.CheckFile(usftp.CheckFile{})
		return err
	},
	"Chmod": func(_ *usftp.Client, f *usftp.File) error { return f.Chmod(0) },
	"Chown": func(_ *usftp.Client, f *usftp.File) error { return f.Chown(1, 1) },
	"Chtimes": func(_ *usftp.Client, f *usftp.File) error {
		return f.Chtimes(time.Now(),
			time.Now())
	},
	"Truncate": func(_ *usftp.Client, f *usftp.File) error { return f.Truncate(0) },
	"SetExtendedData": func(_ *usftp.Client, f *usftp.File) error {
		return f.SetExtendedData("",
			nil)
	},
	"Seek": func(_ *usftp.Client, f *usftp.File) error {
		_, err := f.Seek(0, io.SeekEnd)
		return err
	},
	"CopyRange": func(_ *usftp.Client, f *usftp.File) error {
		_, err := f.CopyRange(0, 10, f, 100)
		return err
	},
	"Chunks": func(_ *usftp.Client, f *usftp.File) error {
		for _, err := range f.Chunks(usftp.ListChunks{Algorithm: "sha256", Shortest: 8 << 10}) {
			return err
		}
		return nil
	},
	"private.Stripes.ReadRange": func(_ *usftp.Client, f *usftp.File) error {
		r := private.NewStripes(f).ReadRange(0, 10)
		defer r.Close()
		_, err := io.ReadAll(r)
		return err
	},
	"ReadRange":   func(_ *usftp.Client, f *usftp.File) error { return readRange(f) },
	"Remove":      func(_ *usftp.Client, f *usftp.File) error { return f.Remove() },
	"Rename":      func(_ *usftp.Client, f *usftp.File) error { return f.Rename("/g") },
	"PosixRename": func(_ *usftp.Client, f *usftp.File) error { return f.PosixRename("/g") },
	"Async": func(_ *usftp.Client, f *usftp.File) error {
		_, err := f.Async().ReadAt(make([]byte, 1<<20), 0).Wait()
		return err
	},
	"Writer": func(_ *usftp.Client, f *usftp.File) error {
		w := f.Writer()
		w.Write(make([]byte, 100))
		return w.Close()
	},
	"SetAttrs": func(_ *usftp.Client, f *usftp.File) error {
		return f.SetAttrs(usftp.NewAttrs{SetMode: true})
	},
	"private.File.StartWriteClose": func(_ *usftp.Client, f *usftp.File) error {
		_, err := private.OfFile(f).StartWriteClose(make([]byte, 10), usftp.NewAttrs{})()
		return err
	},
	"private.File.StartStored": func(_ *usftp.Client, f *usftp.File) error {
		prove := private.OfFile(f).StartStored(10)
		// which tells why it ended
		return cmp.Or(prove(), f.SetAttrs(usftp.NewAttrs{SetMode: true}))
	},
	"private.File.ReadClose": func(_ *usftp.Client, f *usftp.File) error {
		_, err := private.OfFile(f).ReadClose(10, func() []byte { return make([]byte, 10) }, func() {})
		return err
	},
	"private.Stripes.WriteToAt": func(_ *usftp.Client, f *usftp.File) error {
		_, err := private.NewStripes(f).WriteToAt(nowhere{})
		return err
	},
	"private.Stripes.ReadFromAt": func(_ *usftp.Client, f *usftp.File) error {
		_, err := private.NewStripes(f).ReadFromAt(nowhere{})
		return err
	},
	"Open": func(c *usftp.Client, _ *usftp.File) error {
		return usftp.NewFile(c, "/f").Open(os.O_RDWR, 0)
	},
	"OpenRead": func(c *usftp.Client, _ *usftp.File) error {
		return usftp.NewFile(c,
			"/f").OpenRead()
	},
	"DirEntry": func(c *usftp.Client, _ *usftp.File) error {
		_, err := usftp.NewFile(c, "/f").DirEntry().Info()
		return err
	},
}

// nowhere is an endless source and sink.
type nowhere struct{}

func (nowhere) ReadAt(p []byte, _ int64) (int, error) { return len(p), nil }

func (nowhere) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }

// noFileCalls are the methods of File that send no request, and those that close it: a context does
// not end their wait for the server's last answer.
var noFileCalls = []string{"Close", "Abandon", "WithContext", "Client", "SetClient", "Name", "BaseName",
	"Stash", "SetStash", "IsOpen", "AttrsCached",
	"FileStat", "Size", "Mode", "ModTime", "IsDir", "IsRegular", "UID", "GID", "Info", "Handle",
	"Progress", "private.File.Waited", "private.File.Answers", "private.File.HandleLost", "private.Stripes.Join",
	"private.Stripes.Rest",
	"private.Stripes.Idle", "private.Stripes.Moved", "private.Stripes.Joined"}

// transfers are the methods that File.Close ends, since they use the open file.
var transfers = []string{"Read", "ReadAt", "WriteTo", "Write", "WriteAt", "ReadFrom",
	"ReadFromWithConcurrency", "Async", "Writer", "private.Stripes.WriteToAt",
	"private.Stripes.ReadFromAt"}

// TestEveryCallIsListed: the lists above cover every method.
func TestEveryCallIsListed(t *testing.T) {
	for _, list := range []struct {
		of     reflect.Type
		prefix string // of those names below
		calls  map[string]anyCall
		no     []string
	}{
		{reflect.TypeFor[*usftp.Client](), "", clientCalls, noClientCalls},
		{reflect.TypeFor[private.Client](), "private.Client.", clientCalls, noClientCalls},
		{reflect.TypeFor[*usftp.File](), "", fileCalls, noFileCalls},
		{reflect.TypeFor[private.File](), "private.File.", fileCalls, noFileCalls},
		{reflect.TypeFor[private.Stripes](), "private.Stripes.", fileCalls, noFileCalls},
	} {
		known := make(map[string]bool)
		for _, name := range slices.Concat(slices.Collect(maps.Keys(list.calls)), list.no) {
			if method, found := strings.CutPrefix(name, list.prefix); found &&
				!strings.Contains(method, ".") {
				known[method] = true
			}
		}
		for i := range list.of.NumMethod() {
			if name := list.of.Method(i).Name; !known[name] {
				t.Errorf("%v.%s is not tested", list.of, name)
			}
		}
		for name := range known {
			if _, exists := list.of.MethodByName(name); !exists {
				t.Errorf("%v has no %s", list.of, name)
			}
		}
	}
}

// eachCall makes every call to a server that has stopped answering, and then what must end the
// call.
func eachCall(t *testing.T, end func(cancel func(), r *rig, f *usftp.File), want error,
	only func(name string, ofFile bool) bool, after func(t *testing.T, r *rig)) {
	run := func(name string, call anyCall) {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				gate := new(sftptest.Gate)
				extensions := append(sftptest.OpenSSHExtensions(),
					wire.ExtensionPair{Name: wire.ExtCheckFile, Data: "1"},
					wire.ExtensionPair{Name: wire.ExtChunks, Data: "1"},
					wire.ExtensionPair{Name: wire.ExtBeneath, Data: "2"},
					wire.ExtensionPair{Name: wire.ExtUploads, Data: "1"})
				r := newRig(t, sftptest.Script{Extensions: extensions}, 0)
				r.server.Files.WriteFile("/f", noise(2<<20))
				f := must[*usftp.File](t)(r.OpenFile("/f", os.O_RDWR, 0))
				must[usftp.Limits](t)(r.Limits())
				r.server.AddFaults(sftptest.Fault{Do: sftptest.Hold(gate)})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var began time.Time
				go func() {
					synctest.Wait() // until the call can only wait
					began = time.Now()
					end(cancel, r, f)
				}()
				err := call(r.WithContext(ctx), f.WithContext(ctx))
				if !errors.Is(err, want) {
					t.Errorf("the error is %v, want %v", err, want)
				}
				if took := time.Since(began); took != 0 {
					t.Errorf("it took %v to end", took)
				}
				gate.Open()
				after(t, r)
			})
		})
	}
	for name, call := range clientCalls {
		if only(name, false) {
			run("Client."+name, call)
		}
	}
	for name, call := range fileCalls {
		if only(name, true) {
			run("File."+name, call)
		}
	}
}

func TestEveryCallEndsWithItsContext(t *testing.T) {
	all := func(string, bool) bool { return true }
	eachCall(t, func(cancel func(), _ *rig, _ *usftp.File) { cancel() }, context.Canceled, all,
		func(t *testing.T, r *rig) {
			if _, err := r.Stat("/"); err != nil {
				t.Errorf("the connection does not serve another call: %v", err)
			}
		})
}

func TestEveryCallEndsWithTheClient(t *testing.T) {
	all := func(string, bool) bool { return true }
	eachCall(t, func(_ func(), r *rig, _ *usftp.File) { r.Close() }, usftp.ErrClosed, all,
		func(t *testing.T, r *rig) {
			if err := r.Wait(); !errors.Is(err, usftp.ErrClosed) {
				t.Errorf("Wait says %v", err)
			}
		})
}

func TestTransfersEndWithTheFile(t *testing.T) {
	some := func(name string, ofFile bool) bool {
		return ofFile && slices.Contains(transfers, name)
	}
	eachCall(t, func(_ func(), _ *rig, f *usftp.File) { go f.Close() }, fs.ErrClosed, some,
		func(t *testing.T, r *rig) {
			if _, err := r.Stat("/"); err != nil {
				t.Errorf("the connection does not serve another call: %v", err)
			}
		})
}

// readRange reads everything from ReadRange.
func readRange(f *usftp.File) error {
	r := f.ReadRange(0, -1)
	defer r.Close()
	_, err := io.Copy(io.Discard, r)
	return err
}
