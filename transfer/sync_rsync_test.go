package transfer_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/soak"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/transfer"
)

// A sync leaves what rsync leaves, with the same options, in a target that differs from the source
// at random.
func TestSyncAsRsync(t *testing.T) {
	t.Parallel()
	rsync := testenv.Program(t, "rsync")
	everyWay(t, func(t *testing.T, direction way, far pool.Host) {
		for seed := range uint64(soak.Pick(2, 15)) {
			seed += 1000 * uint64(len(direction.String()))
			dir := t.TempDir()
			rng := rand.New(rand.NewPCG(seed, 3))
			src := newGrove(t, seed, filepath.Join(dir, "src"))
			ours, theirs := filepath.Join(dir, "ours"), filepath.Join(dir, "theirs")
			ask(t, dir, rsync, "-a", "src/", "theirs")
			dst := &grove{t: t, rng: rng, root: theirs, n: 1000}
			for range rng.IntN(20) {
				src.change(true)
				dst.change(true)
			}
			ask(t, dir, rsync, "-a", "theirs/", "ours")
			o, flags := randomSync(rng, !inTheWay(src.all(fs.ModeDir), src.root, theirs))
			cmd := exec.Command(rsync, slices.Concat([]string{"-rlpt"}, flags,
				[]string{"src/", "theirs"})...)
			cmd.Dir = dir
			said, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 23) {
				t.Fatalf("%v: %s", err, said)
			}
			j := &syncJob{direction: direction, far: far, src: src.root, dst: ours, options: o}
			_, ourErr := j.run(t)
			if (ourErr != nil) != (err != nil) {
				t.Errorf("seed %d: %q: we end with %v, rsync with %v: %s", seed, flags, ourErr, err,
					said)
			}
			there := func(dst string) []string { // but for when something was deleted where SRC has nothing
				lines := census(t, dst, o.ModifyWindow == 0)
				for i, line := range lines {
					name, _ := strconv.Unquote(line[:strings.Index(line, `" `)+1])
					_, err := os.Lstat(filepath.Join(src.root, name))
					if fields := strings.Split(line[len(strconv.Quote(name))+1:], " "); err != nil &&
						fields[0][0] == 'd' {
						lines[i] = strconv.Quote(name) + " " + fields[0]
					}
				}
				return lines
			}
			if a, b := there(ours), there(theirs); !slices.Equal(a, b) {
				t.Errorf("seed %d: %q: only ours has\n%s\nonly rsync's has\n%s\nSRC is\n%s", seed,
					flags,
					lacking(a, b), lacking(b, a), strings.Join(census(t, src.root, true), "\n"))
			}
		}
	})
}

// randomSync returns options, and the flags of rsync that mean the same.
func randomSync(rng *rand.Rand, ignoreExisting bool) (o transfer.SyncOptions, flags []string) {
	with := func(flag string) bool {
		if rng.IntN(4) > 0 {
			return false
		}
		flags = append(flags, flag)
		return true
	}
	if o.Delete = rng.IntN(2) == 0; o.Delete {
		o.MaxDelete = 1 << 30
		flags = append(flags, "--delete-after")
	}
	o.Update = with("--update")
	o.Checksum = with("--checksum")
	o.SizeOnly = with("--size-only")
	o.NoModes = with("--no-perms")
	if o.Only.Existing = with("--existing"); !o.Only.Existing && ignoreExisting {
		o.Only.IgnoreExisting = with("--ignore-existing")
	}
	if with("--min-size=1000") {
		o.Only.MinSize = 1000
	}
	if with("--max-size=2000") {
		o.Only.MaxSize = 2000
	}
	if !o.Update && with(
		"--modify-window=10000000") { // with both, rsync leaves the modes of equal files
		o.ModifyWindow = 10_000_000 * time.Second
	}
	for rng.IntN(3) == 0 {
		pattern := []string{"n1*", "n2", "/n3*/", "n*4*/**", "*7", "n1?5"}[rng.IntN(6)]
		include := rng.IntN(3) == 0
		flags = append(flags, "--"+map[bool]string{false: "exclude", true: "include"}[include]+"="+
			pattern)
		o.Filter = transfer.AppendFilter(o.Filter, pattern, include)
	}
	return o, flags
}

// inTheWay reports whether the target has anything else in the place of a directory. With
// --ignore-existing rsync then tries to copy what is in the directory all the same.
func inTheWay(dirs []string, src, dst string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool {
		info, err := os.Lstat(dst + strings.TrimPrefix(dir, src))
		return err == nil && !info.IsDir()
	})
}

// census lists everything in a tree, with what a sync makes equal: the times of files only, if
// others need not be equal, and rsync leaves what they have become.
func census(t *testing.T, root string, all bool) (lines []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, name)
		line := strconv.Quote(rel) + " " + info.Mode().String()
		if all || info.Mode().IsRegular() {
			line += fmt.Sprint(" ", info.ModTime().Unix())
		}
		switch {
		case info.Mode().IsRegular():
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %d %x", len(data), sha256.Sum256(data))
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(name)
			if err != nil {
				return err
			}
			line += " " + to
		}
		lines = append(lines, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// lacking returns the lines of a that b does not have.
func lacking(a, b []string) string {
	a = slices.Clone(a)
	return strings.Join(slices.DeleteFunc(a, func(line string) bool {
		return slices.Contains(b, line)
	}), "\n")
}
