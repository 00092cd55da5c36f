package opt

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/usftp/usftp/internal/testenv"
)

// --chmod makes of every mode what rsync makes of it, and refuses what rsync refuses.
func TestChmodAsRsync(t *testing.T) {
	t.Parallel()
	rsync := testenv.Program(t, "rsync")
	dir := t.TempDir()
	src := filepath.Join(dir, "src")
	modes := map[string]fs.FileMode{}
	for i, mode := range []fs.FileMode{0o644, 0o755, 0o600, 0o444, 0o711, 0o070 | fs.ModeSetgid,
		0o755 | fs.ModeSetuid, 0o777 | fs.ModeSticky} {
		file, sub := fmt.Sprint("f", i), fmt.Sprint("d", i)
		modes[file], modes[sub] = mode, mode|0o700|fs.ModeDir
		for _, err := range []error{os.MkdirAll(filepath.Join(src, sub), 0o755),
			os.WriteFile(filepath.Join(src, file), nil, 0o644),
			os.Chmod(filepath.Join(src, file), mode),
			os.Chmod(filepath.Join(src, sub), mode|0o700)} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for n, spec := range []string{"D755,F644", "D2750,F600", "u+x", "Fu+x", "Da+rX,F-x", "a-x+r",
		"go=", "go=rX", "ug=rwX,o-rwx", "+w", "-w", "=r", "Du+s", "g+s", "g-s", "+t", "o+t", "Dg+s,Fg-s",
		"g=rs", "u=rws,g=r", "a=rwX", "0", "7777", "F0640", "ugo+rw", "FD755", "DF1", "D", "", "u", "u+",
		"u~x", "8", "77777", "u755", "+755", "g=u", "g+u", "o-g", "u=go", "g=ur", "go=u", "=u", "Fg=u", "a=u", "o-u,g+o", "-u", "ux+r", "u+r,", "u+r w"} {
		theirs := filepath.Join(dir, fmt.Sprint("dst", n))
		said, theirErr := exec.Command(rsync, "-rp", "--chmod="+spec, src+"/", theirs).CombinedOutput()
		change, err := parseChmod(spec, nil)
		if (err == nil) != (theirErr == nil) {
			t.Errorf("%q: %v; rsync: %v: %s", spec, err, theirErr, said)
		}
		if err != nil || theirErr != nil {
			continue
		}
		for name, mode := range modes {
			info, err := os.Lstat(filepath.Join(theirs, name))
			if err != nil {
				t.Fatal(err)
			}
			if got := change(mode); got != info.Mode() {
				t.Errorf("%q makes %v of %v, rsync %v", spec, got, mode, info.Mode())
			}
		}
	}
	first, err := parseChmod("F600", nil)
	if err != nil {
		t.Fatal(err)
	}
	if both, err := parseChmod("g+r", first); err != nil || both(0o777) != 0o640 {
		t.Errorf("two after each other make %v: %v", both(0o777), err)
	}
}
