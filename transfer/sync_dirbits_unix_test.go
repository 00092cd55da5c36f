//go:build unix

package transfer_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/transfer"
)

// A directory into which everybody may write keeps the bit that stops people from deleting each
// other's files, and a group's directory the one that hands its files to the group. A sync also
// mends a copy that lacks them. Without Preserve a tree gets neither.
func TestDirectoriesKeepStickyAndSetgid(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, direction way, far pool.Host) {
		dir := t.TempDir()
		j := &syncJob{direction: direction, far: far, src: filepath.Join(dir, "src"),
			dst: filepath.Join(dir, "dst")}
		for name, mode := range map[string]fs.FileMode{"public": 0o777 | fs.ModeSticky,
			"group": 0o775 | fs.ModeSetgid, "both": 0o771 | fs.ModeSetgid | fs.ModeSticky} {
			fill(t, j.src, name+"/file")
			modes(t, mode, filepath.Join(j.src, name))
		}
		check := func(dst string, keep fs.FileMode) {
			t.Helper()
			for _, name := range []string{"public", "group", "both"} {
				want, err := os.Stat(filepath.Join(j.src, name))
				if err != nil {
					t.Fatal(err)
				}
				got, err := os.Stat(filepath.Join(dst, name))
				if err != nil {
					t.Fatal(err)
				}
				if keep != 0 && got.Mode() != want.Mode() ||
					got.Mode()&^keep&(fs.ModeSetgid|fs.ModeSticky) != 0 {
					t.Errorf("%s has mode %v, its source %v", name, got.Mode(), want.Mode())
				}
			}
		}
		const bits = fs.ModeSetgid | fs.ModeSticky
		j.must(t)
		check(j.dst, bits)
		public, group := filepath.Join(j.dst, "public"), filepath.Join(j.dst, "group")
		modes(t, 0o777, public)
		modes(t, 0o775|fs.ModeSticky, group)
		j.must(t)
		check(j.dst, bits)
		for name, preserve := range map[string]bool{"with": true, "without": false} {
			dst := filepath.Join(dir, name)
			to, from := direction.endpoints(far, far, j.src, dst, nil, nil)
			options := transfer.TreeOptions{Options: transfer.Options{
				Attributes: transfer.Attributes{Preserve: preserve}}}
			if _, err := transfer.CopyTree(t.Context(), to, from, options); err != nil {
				t.Fatal(err)
			}
			if preserve {
				check(dst, bits)
			} else {
				check(dst, 0)
			}
		}
	})
}
