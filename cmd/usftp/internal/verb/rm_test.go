package verb

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/treewalk"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// TestRemoveRefuses: operands that are surely mistakes are refused, whatever the options.
func TestRemoveRefuses(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir+"/d/f", "x")
	r := newRig(startServer(t, dir))
	for _, name := range []string{"", "/", "//", ".", "..", "./", "d/..", "d/.", "d/../", "/.",
		"/..", "d/./."} {
		err := Remove(t.Context(), r.Env, RemoveOptions{Recursive: true, Force: true},
			[]string{name})
		if _, said := r.take(); codeOf(err) != 1 || !strings.Contains(said, "cannot remove") {
			t.Errorf("%q: %v, %q", name, err, said)
		}
	}
	if _, err := os.Stat(dir + "/d/f"); err != nil {
		t.Error(err)
	}
}

// TestDeleteLeavesTheRest: find -delete leaves what the expression does not select, however many
// entries its directory has, and although the expression selects that too.
func TestDeleteLeavesTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := sftptest.NewScripted(sftptest.Script{ReaddirNames: 1000})
		defer server.Close()
		for i := range treewalk.MostPart {
			server.Files.WriteFile(fmt.Sprintf("/t/%05d", i), nil)
		}
		server.Files.WriteFile("/t/keep", []byte("kept"))
		client := clientOf(t, server.Dial(sftptest.LinkConfig{}), usftp.WithServerVersion(openSSH))
		r := newRig(client)
		x, err := ParseExpression(strings.Fields("! -name keep -delete"))
		ok(t, err)
		err = Find(background, r.Env, x, []string{"/t"})
		_, said := r.take()
		if left := server.Files.List(); codeOf(err) != 1 || !slices.Contains(left, "/t/keep") ||
			len(left) > 3 || !strings.Contains(said, "/t: directory not empty") {
			t.Errorf("%v: it said %q, and left %.200q", err, said, left)
		}
	})
}

// TestRemoveFollowsNoLink: neither an operand nor anything below one.
func TestRemoveFollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir+"/keep/f", "x")
	writeFile(t, dir+"/d/e/f", "x")
	ok(t, os.Symlink(dir+"/keep", dir+"/d/link"))
	ok(t, os.Symlink(dir+"/keep", dir+"/d/e/link"))
	ok(t, os.Symlink(dir+"/keep", dir+"/top"))
	r := newRig(startServer(t, dir))
	ok(t, Remove(t.Context(), r.Env, RemoveOptions{Recursive: true}, []string{"d", "top"}))
	if _, err := os.Stat(dir + "/keep/f"); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(dir + "/*"); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
}

// TestRemoveSlash: a name that ends in a slash stands for a directory only, as in rm. What is
// something else stays, and is no failure with -f. Through a link nothing is removed, while GNU's
// rm -r empties the directory that it leads to: that is a failure, also where GNU's succeeds.
func TestRemoveSlash(t *testing.T) {
	for _, args := range []string{"-r dir/", "-r link/", "-rf link/", "link/", "-f link/", "file/",
		"-f file/", "-r file/ file2", "missing/", "file file/", "file/ file"} {
		ours, theirs := t.TempDir(), t.TempDir()
		for _, dir := range []string{ours, theirs} {
			writeFile(t, dir+"/dir/f", "x")
			writeFile(t, dir+"/file", "x")
			writeFile(t, dir+"/file2", "x")
			ok(t, os.Symlink("dir", dir+"/link"))
		}
		flags, names := "", strings.Fields(args)
		if strings.HasPrefix(args, "-") {
			flags, names = names[0], names[1:]
		}
		_, code := tool(t, theirs, "rm", strings.Fields(args)...)
		r := newRig(startServer(t, ours))
		err := Remove(t.Context(), r.Env, RemoveOptions{Recursive: strings.Contains(flags, "r"),
			Force: strings.Contains(flags, "f")}, names)
		_, said := r.take()
		left, _ := tool(t, ours, "find", ".")
		if strings.Contains(flags, "r") && names[0] == "link/" {
			writeFile(t, theirs+"/dir/f", "x")
			code = 1
		}
		want, _ := tool(t, theirs, "find", ".")
		if codeOf(err) != code || (said != "") != (code != 0) ||
			sortedLines(left) != sortedLines(want) {
			t.Errorf("rm %s: %v, want code %d; said %q; left\n%s\nwant\n%s", args, err, code, said,
				left, want)
		}
	}
}

// TestRemoveIsRm compares what is left, what is printed with -v and the exit codes with rm.
func TestRemoveIsRm(t *testing.T) {
	if os.Getuid() == 0 {
		t.Log("as root nothing is refused: what cannot be removed is tested with a scripted server")
	}
	for _, test := range []struct {
		args  string
		o     RemoveOptions
		names []string
	}{
		{"", RemoveOptions{}, []string{"tree/a", "tree/b", "missing"}},
		{"-f", RemoveOptions{Force: true}, []string{"missing", "tree"}},
		{"-d", RemoveOptions{Directories: true}, []string{"empty", "tree"}},
		{"-r", RemoveOptions{Recursive: true}, []string{"tree", "empty"}},
		{"-rf", RemoveOptions{Recursive: true, Force: true}, []string{"tree", "missing"}},
	} {
		t.Run("rm "+test.args, func(t *testing.T) {
			left := func(dir string) string {
				out, _ := tool(t, dir, "find", ".", "-printf", "%p %y\n")
				return out
			}
			ours, theirs := t.TempDir(), t.TempDir()
			for _, dir := range []string{ours, theirs} {
				randomTree(t, 3, dir+"/tree", 3)
				ok(t, os.Mkdir(dir+"/empty", 0o755))
			}
			args := append(strings.Fields(test.args), test.names...)
			_, code := tool(t, theirs, "rm", args...)
			r := newRig(startServer(t, ours))
			err := Remove(t.Context(), r.Env, test.o, test.names)
			if got, want := left(ours), left(theirs); got != want || codeOf(err) != code {
				_, said := r.take()
				t.Errorf("code %v, want %d; said %q; left\n%s\nwant\n%s", err, code, said, got,
					want)
			}
		})
	}
}

// TestRemoveAsks: with -i, "no" keeps a file and the directories that hold it.
func TestRemoveAsks(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"d/a", "d/b", "d/e/c", "f"} {
		writeFile(t, filepath.Join(dir, name), "x")
	}
	r := newRig(startServer(t, dir))
	var asked []string
	r.Ask = func(_ context.Context, question string) (bool, error) {
		asked = append(asked, question)
		return !strings.Contains(question, "d/b"), nil
	}
	ok(t, Remove(t.Context(), r.Env, RemoveOptions{Recursive: true, Interactive: true},
		[]string{"d", "f"}))
	want := "descend into directory d?|remove d/a?|remove d/b?|descend into directory d/e?|remove d/e/c?|remove directory d/e?|remove f?"
	if got := strings.Join(asked, "|"); got != want {
		t.Errorf("asked %s\nwant  %s", got, want)
	}
	if left, _ := tool(t, dir, "find", ".", "-type", "f"); left != "./d/b\n" {
		t.Errorf("left %q", left)
	}
}

// TestRemoveWhatFails: in whatever order a server works, the rest is removed, each failure is
// reported once, and the directories above are not reported.
func TestRemoveWhatFails(t *testing.T) {
	for _, version := range []string{openSSH, ""} {
		t.Run(fmt.Sprintf("version %q", version), func(t *testing.T) {
			onShape(t, shapes[1], version, func(r *rig, server *sftptest.Scripted) {
				for i := range 3 {
					server.AddFaults(sftptest.Fault{Path: fmt.Sprintf("/t/%03d/050", 7*i),
						Do: sftptest.Refuse(wire.PermissionDenied, "no")})
				}
				err := Remove(context.Background(), r.Env, RemoveOptions{Recursive: true},
					[]string{"/t"})
				_, said := r.take()
				if codeOf(err) != 1 || strings.Count(said, "\n") != 2 ||
					strings.Count(said, "permission denied") != 3 {
					t.Errorf("%v, said\n%s", err, said)
				}
				left, readErr := r.Client.ReadDir("/t")
				if readErr != nil || len(left) != 3 {
					t.Errorf("%d are left, %v", len(left), readErr)
				}
			})
		})
	}
}
