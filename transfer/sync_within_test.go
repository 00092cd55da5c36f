package transfer_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/transfer"
)

// Renames are repeated in the target, but not of what is excluded there: that is left alone.
func TestSyncRenames(t *testing.T) {
	t.Parallel()
	exclude := func(patterns ...string) (o transfer.SyncOptions) {
		for _, pattern := range patterns {
			o.Filter = transfer.AppendFilter(o.Filter, pattern, false)
		}
		return o
	}
	ignored := transfer.SyncOptions{IgnoreFile: ".gitignore"}
	for name, test := range map[string]struct {
		from, to string
		options  transfer.SyncOptions
		gone     bool // the directory "to" is all that "from" was
	}{
		"a directory":         {from: "old", to: "new", gone: true},
		"one in another":      {from: "old", to: "sub/new", gone: true},
		"an excluded one":     {from: "old", to: "new", options: exclude("old/")},
		"to an excluded name": {from: "old", to: "new", options: exclude("new/")},
		"out of an excluded one": {from: "build/old", to: "new",
			options: exclude("build/")},
		"into an excluded one": {from: "old", to: "sub/new",
			options: exclude("/sub")},
		"excluded otherwise": {from: "old", to: "new", options: exclude("*.o"),
			gone: true},
		"excluded by an ignore file":   {from: "old", to: "new", options: ignored},
		"excluded by one that is gone": {from: "late/old", to: "new", options: ignored},
		"of another name by the ignore file": {from: "other", to: "new", options: ignored,
			gone: true},
	} {
		t.Run(name, func(t *testing.T) {
			everyWay(t, func(t *testing.T, direction way, far pool.Host) {
				dir := t.TempDir()
				src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
				fill(t, src, "sub/file", "build/file")
				if err := os.WriteFile(filepath.Join(src, ".gitignore"), []byte("old/\n"),
					0o644); err != nil {
					t.Fatal(err)
				}
				fill(t, dst, "sub/file", filepath.Join(test.from, "own"))
				fill(t, src, filepath.Join(test.to, "file"))
				j := &syncJob{direction: direction, far: far, src: src, dst: dst,
					options: test.options}
				j.options.Within = &transfer.SyncWithin{Dirs: map[string]bool{".": true},
					Trees:   []string{test.to},
					Renames: []transfer.SyncRename{{From: test.from, To: test.to}}}
				j.must(t)
				left := filesIn(dst)
				if slices.Contains(left, filepath.Join(test.from, "own")) == test.gone ||
					slices.Contains(left, filepath.Join(test.to, "own")) != test.gone {
					t.Errorf("there are %q", left)
				}
			})
		})
	}
}

// Only the entries of what may have changed are compared, and of the directories above.
func TestSyncWithin(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, direction way, far pool.Host) {
		dir := t.TempDir()
		src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
		if err := os.Mkdir(dst, 0o755); err != nil {
			t.Fatal(err)
		}
		names := []string{"a", "b/c", "b/d/e", "b/d/f/g", "h/i", "h/j/k"}
		fill(t, src, names...)
		j := &syncJob{direction: direction, far: far, src: src, dst: dst}
		for name, test := range map[string]struct {
			within transfer.SyncWithin
			want   []string
		}{
			"nothing": {transfer.SyncWithin{}, []string{"a"}},
			"the top": {transfer.SyncWithin{Dirs: map[string]bool{".": true}},
				[]string{"a"}},
			"a deep directory": {transfer.SyncWithin{Dirs: map[string]bool{"b/d": true}},
				[]string{"a", "b/c", "b/d/e"}},
			"a tree": {transfer.SyncWithin{Trees: []string{"b"}},
				[]string{"a", "b/c", "b/d/e", "b/d/f/g"}},
			"a tree in a tree": {transfer.SyncWithin{Trees: []string{"h/j"}},
				[]string{"a", "h/i", "h/j/k"}},
			"all": {transfer.SyncWithin{Trees: []string{"."}}, names},
			"a name that begins": {transfer.SyncWithin{Trees: []string{"b/d/f"},
				Dirs: map[string]bool{"h2": true}}, []string{"a", "b/c", "b/d/e", "b/d/f/g"}},
		} {
			t.Run(name, func(t *testing.T) {
				for _, name := range names { // what DST has is older
					if err := os.MkdirAll(filepath.Dir(filepath.Join(dst, name)),
						0o755); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(filepath.Join(dst, name), nil, 0o644); err != nil {
						t.Fatal(err)
					}
				}
				j.options.Within = &test.within
				j.must(t)
				var got []string
				for _, name := range names {
					if data, err := os.ReadFile(filepath.Join(dst, name)); err != nil {
						t.Fatal(err)
					} else if len(data) > 0 {
						got = append(got, name)
					}
				}
				if !slices.Equal(got, test.want) {
					t.Errorf("%q were compared, want %q", got, test.want)
				}
			})
		}
	})
}
