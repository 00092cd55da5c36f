package transfer_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/transfer"
)

// listedTree makes a directory with files two levels deep and links.
func listedTree(t *testing.T) (src string) {
	t.Helper()
	src = filepath.Join(t.TempDir(), "src")
	for _, name := range []string{"top", "a/b/f", "c/g", "d/i", "d/e/h", "#odd"} {
		name = filepath.Join(src, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755),
			os.WriteFile(name, []byte(name), 0o640)); err != nil {
			t.Fatal(err)
		}
	}
	old := time.Now().Add(-time.Hour)
	testenv.Symlink(t, "top", filepath.Join(src, "tl"))
	testenv.Symlink(t, "d", filepath.Join(src, "dl"))
	for _, err := range []error{os.Chmod(filepath.Join(src, "d"), 0o711),
		os.Chtimes(filepath.Join(src, "a"), old, old)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return src
}

// What a list of files names is copied as rsync copies it, with what is above it.
func TestFileListAsRsync(t *testing.T) {
	t.Parallel()
	rsync := testenv.Program(t, "rsync")
	lists := []string{"/a/b/f\n", "../c/g\n", "a/../../c/g", "c/g\na/b/nope\na/b/f\n",
		"#odd\n;y\n\ntop\n", "d\n", "d/\n", "d/.\n", ".\n", "./d/i\ntop\n", "dl\ntl\n",
		"top\r\nc/g\r\n", "top/x\nc//g\n", "", "top\x00d/i", "d\nd/nope\n", "d/\nd/e/h\n", "nope/x"}
	everyWay(t, func(t *testing.T, direction way, far pool.Host) {
		for _, text := range lists {
			for _, recursive := range []bool{false, true} {
				src := listedTree(t)
				ours, theirs := src+"-ours", src+"-theirs"
				if err := errors.Join(os.Mkdir(ours, 0o700), os.Mkdir(theirs, 0o700)); err != nil {
					t.Fatal(err)
				}
				nul := strings.Contains(text, "\x00")
				cmd := exec.Command(rsync, "-a", "--files-from=-")
				if recursive {
					cmd.Args = append(cmd.Args, "-r")
				}
				if nul {
					cmd.Args = append(cmd.Args, "-0")
				}
				cmd.Args = append(cmd.Args, src, theirs)
				cmd.Stdin = strings.NewReader(text)
				theirErr := cmd.Run()
				list, err := transfer.ReadFileList(strings.NewReader(text), nul)
				if err != nil {
					t.Fatal(err)
				}
				list.Recursive = recursive
				j := &syncJob{direction: direction, far: far, src: src, dst: ours}
				j.options.Files, j.options.NoLock = list, true
				s, err := j.run(t)
				if (err == nil) != (theirErr == nil) || (err != nil) != (s.Failed == 1) {
					t.Errorf("%q, recursive %v: %v, %+v; rsync: %v", text, recursive, err, s.Totals,
						theirErr)
				}
				if a, b := contentsOf(t, ours), contentsOf(t, theirs); !slices.Equal(a, b) {
					t.Errorf("%q, recursive %v: only ours has\n%s\nonly rsync's has\n%s", text,
						recursive, lacking(a, b), lacking(b, a))
				}
			}
		}
	})
}

// contentsOf is census without the tree's root, which a list need not name.
func contentsOf(t *testing.T, root string) []string {
	t.Helper()
	return slices.DeleteFunc(census(t, root, true), func(line string) bool {
		return strings.HasPrefix(line, `"."`)
	})
}

// What is listed and left out for a reason of its own is not missing, and what is behind a link is
// told apart from what does not exist.
func TestFileListMissing(t *testing.T) {
	t.Parallel()
	src := listedTree(t)
	for name, test := range map[string]struct {
		change func(o *transfer.TreeOptions)
		failed []string // the reasons
		copied []string
	}{
		"excluded": {func(o *transfer.TreeOptions) { o.Filter = rules("/d", "g") }, nil,
			[]string{"a/b/f"}},
		"behind a link": {func(o *transfer.TreeOptions) { o.Files.Names = []string{"dl/i", "dl/no"} },
			[]string{"symbolic link", "does not have it"}, nil},
		"followed": {func(o *transfer.TreeOptions) {
			o.Files.Names, o.Links = []string{"dl/i"}, transfer.LinksFollow
		}, nil, []string{"dl/i"}},
		"too many": {func(o *transfer.TreeOptions) { o.MaxEntries = 2 },
			[]string{"more entries than allowed"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			dst := filepath.Join(t.TempDir(), "dst")
			var failed []string
			o := transfer.TreeOptions{Files: &transfer.FileList{
				Names: []string{"a/b/f", "d/i", "c/g"}}}
			o.NoTargetDirectory = true
			o.Events = func(e transfer.Event) {
				if e.Kind == transfer.Failed {
					failed = append(failed, e.Message)
				}
			}
			test.change(&o)
			_, err := transfer.CopyTree(t.Context(), transfer.Local(dst), transfer.Local(src), o)
			slices.SortFunc(failed, func(a, b string) int { return strings.Compare(b, a) })
			if (err != nil) != (test.failed != nil) || len(failed) != len(test.failed) {
				t.Fatalf("%v, %q", err, failed)
			}
			for _, why := range test.failed {
				if !slices.ContainsFunc(failed, func(s string) bool { return strings.Contains(s, why) }) {
					t.Errorf("%q has not %q", failed, why)
				}
			}
			for _, name := range test.copied {
				want, err := os.ReadFile(filepath.Join(src, name))
				got, ourErr := os.ReadFile(filepath.Join(dst, name))
				if err != nil || ourErr != nil || !bytes.Equal(got, want) {
					t.Errorf("%s: %q, %v, %v", name, got, err, ourErr)
				}
			}
		})
	}
	for text, nul := range map[string]bool{strings.Repeat("x", 1<<20): false, "a\x00b\x00": false,
		strings.Repeat("x\n", 1<<19): true} {
		if _, err := transfer.ReadFileList(strings.NewReader(text), nul); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%.10q, with NULs: %v: %v", text, nul, err)
		}
	}
}
