package usftp_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

func TestRemove(t *testing.T) {
	r := newRig(t, sftptest.Script{}, 0)
	r.server.Files.WriteFile("/d/f", nil)
	r.server.Files.Mkdir("/e")
	r.server.Files.Symlink("/d", "/l")
	if err := r.Remove("/d"); err == nil {
		t.Error("a directory that is not empty was removed")
	}
	for _, name := range []string{"/d/f", "/e", "/l", "/d"} {
		if err := r.Remove(name); err != nil {
			t.Error(err)
		}
	}
	if err := r.Remove("/d"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// A server that tells why it refuses REMOVE and RMDIR: of a directory, the second says more; of a
// file, the first.
func TestRemoveReturnsTheErrorThatSaysMore(t *testing.T) {
	for first, want := range map[string]string{
		"Is a directory": "directory not empty", "text file busy": "text file busy",
	} {
		r := newRig(t, sftptest.Script{Faults: []sftptest.Fault{
			{On: wire.TypeRemove, Do: sftptest.Refuse(wire.Failure, first)},
			{On: wire.TypeRmdir, Do: sftptest.Refuse(wire.Failure, "directory not empty")}}}, 0)
		if err := r.Remove("/d"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", first, err)
		}
	}
}

func TestRemoveAll(t *testing.T) {
	for _, version := range []string{"", openSSH} {
		r := newRig(t, sftptest.Script{ReaddirNames: 3}, 0, usftp.WithServerVersion(version))
		files := r.server.Files
		tree(rand.New(rand.NewPCG(3, 3)), "/t", 5, func(name string, dir bool) {
			if dir {
				files.Mkdir(name)
			} else {
				files.WriteFile(name, nil)
			}
		})
		files.WriteFile("/keep/f", nil)
		files.Symlink("/keep", "/t/link")
		files.Symlink("/keep", "/link")
		files.WriteFile("/file", nil)
		for _, name := range []string{"/t", "/link/", "/file", "/none", "/none/x"} {
			if err := r.RemoveAll(name); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if got := files.List(); !slices.Equal(got, []string{"/keep/", "/keep/f"}) {
			t.Errorf("%q is left", got)
		}
		for _, name := range []string{"", ".", "..", "/", "/keep/..", "/keep/."} {
			if err := r.RemoveAll(name); !errors.Is(err, fs.ErrInvalid) {
				t.Errorf("%q: %v", name, err)
			}
		}
		files.Symlink("/keep", "/link")
		if err := r.RemoveAllIn("/link"); err == nil || !files.Exists("/keep/f") {
			t.Errorf("RemoveAllIn followed a link: %v", err)
		}
		ok(t, r.RemoveAllIn("/keep"))
		if got := files.List(); !slices.Equal(got, []string{"/keep/", "/link -> /keep"}) {
			t.Errorf("%q is left", got)
		}
	}
}

func TestRemoveAllOfManyRounds(t *testing.T) {
	r := newRig(t, sftptest.Script{ReaddirNames: 1000}, 0)
	for i := range 25_000 {
		r.server.Files.WriteFile(fmt.Sprint("/t/", i), nil)
	}
	ok(t, r.RemoveAll("/t"))
	if got := r.server.Files.List(); len(got) != 0 {
		t.Errorf("%d are left", len(got))
	}
}

func TestRemoveAllFails(t *testing.T) {
	r := newRig(t, sftptest.Script{Faults: []sftptest.Fault{{On: wire.TypeRemove, Path: "/t/b/x",
		Do: sftptest.Refuse(wire.PermissionDenied, "no")}}}, 0)
	for _, name := range []string{"/t/a/x", "/t/b/x", "/t/b/y", "/t/c/x"} {
		r.server.Files.WriteFile(name, nil)
	}
	err := r.RemoveAll("/t")
	var named *fs.PathError
	if !errors.Is(err, fs.ErrPermission) || !errors.As(err, &named) || named.Path != "/t/b/x" {
		t.Error(err)
	}
	if got := r.server.Files.List(); !slices.Equal(got, []string{"/t/", "/t/b/", "/t/b/x"}) {
		t.Errorf("%q is left", got)
	}
}

// TestRemoveAllGoesOn: one file that cannot be removed keeps none of the others, however many are
// listed after it.
func TestRemoveAllGoesOn(t *testing.T) {
	r := newRig(t, sftptest.Script{ReaddirNames: 1000, Faults: []sftptest.Fault{{On: wire.TypeRemove,
		Path: "/t/0", Do: sftptest.Refuse(wire.PermissionDenied, "no")}}}, 0)
	for i := range 25_000 {
		r.server.Files.WriteFile(fmt.Sprint("/t/", i), nil)
	}
	if err := r.RemoveAll("/t"); !errors.Is(err, fs.ErrPermission) {
		t.Error(err)
	}
	if got := r.server.Files.List(); !slices.Equal(got, []string{"/t/", "/t/0"}) {
		t.Errorf("%d are left", len(got))
	}
}

// TestRemoveAllGoesOnBehindMany: so do more files than are held at a time, and directories.
func TestRemoveAllGoesOnBehindMany(t *testing.T) {
	const many = 12_000
	r := newRig(t, sftptest.Script{ReaddirNames: 1000, Intercept: func(q sftptest.Request) (
		refusal []sftptest.Action) {
		if q.Type == wire.TypeRemove && strings.HasPrefix(q.Path, "/t/a") {
			refusal = append(refusal, sftptest.Refuse(wire.PermissionDenied, "no"))
		}
		return refusal
	}}, 0)
	for i := range many {
		r.server.Files.WriteFile(fmt.Sprintf("/t/a%d", i), nil)
	}
	for i := range 50 {
		r.server.Files.WriteFile(fmt.Sprintf("/t/a dir %d/a", i), nil)
		r.server.Files.WriteFile(fmt.Sprintf("/t/b%d", i), nil)
	}
	if err := r.RemoveAll("/t"); !errors.Is(err, fs.ErrPermission) {
		t.Error(err)
	}
	if got := len(r.server.Files.List()); got != 1+many+2*50 {
		t.Errorf("%d are left", got)
	}
}

// TestFewHandles: a server that allows few open handles, and does not say so, has all directories
// listed.
func TestFewHandles(t *testing.T) {
	r := newRig(t, sftptest.Script{Limits: &wire.LimitsReply{MaxOpenHandles: 3},
		Extensions: []wire.ExtensionPair{}}, 0)
	for i := range 200 {
		r.server.Files.WriteFile(fmt.Sprintf("/t/%d/x", i), nil)
	}
	names, err := r.Glob("/t/*/x")
	if len(names) != 200 || err != nil {
		t.Errorf("Glob: %d names, %v", len(names), err)
	}
	ok(t, r.RemoveAll("/t"))
}

// More directories are emptied at once where the server says how many handles it allows.
func TestRemoveAllPipelines(t *testing.T) {
	const rtt = 50 * time.Millisecond
	limits := sftptest.OpenSSHLimits()
	for _, test := range []struct {
		limits *wire.LimitsReply
		dirs   int
		most   float64
	}{{nil, 250, 50}, {&limits, 1000, 30}} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, sftptest.Script{Limits: test.limits}, rtt,
				usftp.WithServerVersion(openSSH))
			for i := range 5_000 {
				r.server.Files.WriteFile(fmt.Sprintf("/t/%d/%d", i%test.dirs, i), nil)
			}
			if took := trips(rtt, func() { ok(t, r.RemoveAll("/t")) }); took > test.most {
				t.Errorf("5,000 files in %d directories took %v round trips", test.dirs, took)
			}
		})
	}
}

// A link is not taken for the directory that it leads to, even if the server's LSTAT says that.
func TestRemoveAllWhereLinksAreFollowed(t *testing.T) {
	r := newRig(t, sftptest.Script{FollowLinks: true, Faults: []sftptest.Fault{{
		On: wire.TypeRemove, Do: sftptest.Refuse(wire.PermissionDenied, "no")}}}, 0)
	r.server.Files.WriteFile("/dir/deep/kept", nil)
	r.server.Files.Symlink("dir", "/link")
	r.server.Files.Mkdir("/dir/empty")
	for what, err := range map[string]error{"RemoveAll": r.RemoveAll("/link"),
		"RemoveAllIn": r.RemoveAllIn("/link")} {
		if err == nil {
			t.Errorf("%s succeeds", what)
		}
	}
	if !r.server.Files.Exists("/dir/empty") {
		t.Error("a link was followed")
	}
	ok(t, r.WalkDir("/link", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.Type() != fs.ModeSymlink {
			t.Errorf("%s is %v, %v", name, d, err)
		}
		return nil
	}))
}

// Nor is one that is found in a listing without attributes.
func TestListedLinksWhereLinksAreFollowed(t *testing.T) {
	r := newRig(t, sftptest.Script{FollowLinks: true, BareListings: true}, 0)
	r.server.Files.WriteFile("/away/kept", nil)
	r.server.Files.WriteFile("/tree/dir/file", nil)
	r.server.Files.Symlink("/away", "/tree/link")
	var names []string
	ok(t, r.WalkDir("/tree", func(name string, _ fs.DirEntry, err error) error {
		names = append(names, name)
		return err
	}))
	if want := []string{"/tree", "/tree/dir", "/tree/dir/file", "/tree/link"}; !slices.Equal(names,
		want) {
		t.Errorf("the walk finds %q", names)
	}
	ok(t, r.RemoveAll("/tree"))
	if got := r.server.Files.List(); !slices.Equal(got, []string{"/away/", "/away/kept"}) {
		t.Errorf("there are %q", got)
	}
}
