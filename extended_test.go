package usftp_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

func TestRaw(t *testing.T) {
	r := newRig(t, sftptest.Script{ShortReads: 10}, 0)
	r.server.Files.WriteFile("/f", []byte("a few words of no importance"))
	raw := r.Raw()
	h := must[[]byte](t)(raw.Open("/f", wire.OpenRead|wire.OpenWrite, wire.Attrs{}).Wait())
	p := make([]byte, 100)
	if n, err := raw.Read(h, 2, p).Wait(); string(p[:n]) != "few words " || err != nil {
		t.Errorf("%q, %v", p[:n], err)
	}
	must[struct{}](t)(raw.Write(h, 0, []byte("A")).Wait())
	if _, err := raw.Read(h, 1000, p).Wait(); err != io.EOF {
		t.Error(err)
	}
	must[struct{}](t)(raw.Fsetstat(h, wire.Attrs{Flags: wire.AttrSize, Size: 5}).Wait())
	if stat := must[*usftp.FileStat](t)(raw.Fstat(h).Wait()); stat.Size != 5 {
		t.Errorf("%+v", stat)
	}
	must[struct{}](t)(raw.Close(h).Wait())
	d := must[[]byte](t)(raw.Opendir("/").Wait())
	if list := must[[]wire.Name](t)(raw.Readdir(d).Wait()); len(list) != 3 {
		t.Errorf("%+v", list)
	}
	if _, err := raw.Readdir(d).Wait(); err != io.EOF {
		t.Error(err)
	}
	must[struct{}](t)(raw.Close(d).Wait())
	body := must[[]byte](t)(raw.Extended(wire.ExtLimits, nil, wire.TypeExtendedReply).Wait())
	var limits wire.LimitsReply
	if err := limits.Parse(body); err != nil || limits.MaxRead == 0 {
		t.Error(limits, err)
	}
	if _, err := r.Extended("nobody@example.com", []byte("x")); !errors.Is(err,
		errors.ErrUnsupported) {
		t.Error(err)
	}
	f := must[*usftp.File](t)(r.Open("/f"))
	h = must[[]byte](t)(f.Handle())
	if payload, err := r.Extended(wire.ExtFsync,
		append([]byte{0, 0, 0, byte(len(h))}, h...)); payload != nil || err != nil {
		t.Error(payload, err)
	}
	if got := r.Extensions(); got[wire.ExtLimits] != "1" {
		t.Error(got)
	}
}

// TestExtensionsOfOpenSSH uses OpenSSH's own server.
func TestExtensionsOfOpenSSH(t *testing.T) {
	client := startServer(t)
	me, err := user.Current()
	ok(t, err)
	uid := must[int](t)(strconv.Atoi(me.Uid))
	users, groups, err := client.UsersGroups([]uint32{uint32(uid), 4_000_000_000}, []uint32{0})
	if err != nil || len(users) != 2 || users[0] != me.Username || users[1] != "" ||
		len(groups) != 1 || groups[0] == "" {
		t.Errorf("%q, %q, %v", users, groups, err)
	}
	if home, err := client.HomeDirectory(me.Username); home != me.HomeDir || err != nil {
		t.Errorf("%q, %v", home, err)
	}
	if home, err := client.ExpandPath("~" + me.Username); home != me.HomeDir || err != nil {
		t.Errorf("%q, %v", home, err)
	}
	dir := t.TempDir()
	source := filepath.Join(dir, "a")
	data := noise(1 << 20)
	ok(t, os.WriteFile(source, data, 0o640))
	if n, err := client.CopyFile(source, filepath.Join(dir, "b")); n != 1<<20 || err != nil {
		t.Error(n, err)
	}
	if got := must[[]byte](t)(os.ReadFile(filepath.Join(dir, "b"))); !bytes.Equal(got, data) {
		t.Error("the copy differs")
	}
	f := must[*usftp.File](t)(client.Open(source))
	g := must[*usftp.File](t)(client.OpenFile(filepath.Join(dir, "b"), os.O_WRONLY, 0))
	for _, at := range []int64{1 << 20, 0} {
		if n, err := f.CopyRange(1<<20-5, 10, g, at); n != 5 ||
			!errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("a copy beyond the end, to %d: %d, %v", at, n, err)
		}
	}
	if err := g.Sync(); err != nil {
		t.Error(err)
	}
	if stat, err := g.StatVFS(); err != nil || stat.Namemax == 0 {
		t.Error(stat, err)
	}
	link := filepath.Join(dir, "l")
	ok(t, client.Symlink("nowhere", link))
	when := time.Unix(1_000_000_000, 0)
	ok(t, client.Lchtimes(link, when, when))
	if info := must[fs.FileInfo](t)(os.Lstat(link)); !info.ModTime().Equal(when) {
		t.Errorf("the link is of %v", info.ModTime())
	}
	if target, err := os.Readlink(link); target != "nowhere" || err != nil {
		t.Error(target, err)
	}
	ok(t, client.Link(source, filepath.Join(dir, "c")))
	if err := client.Mkdir(source); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
	if dir, err := client.Getwd(); !filepath.IsAbs(dir) || err != nil {
		t.Error(dir, err)
	}
}
