//go:build unix

package sshd

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// StrictModes returns an error if a user other than root and this process's could change the file,
// like sshd's StrictModes (sshd_config(5)): the file and the directories above must belong to one
// of them, and nobody else may write to them. In a directory with the sticky bit others cannot
// replace files that are not theirs. There is no such check on Windows.
func StrictModes(name string) error {
	at, err := filepath.EvalSymlinks(name)
	if err == nil {
		at, err = filepath.Abs(at)
	}
	if err != nil {
		return err
	}
	for above := ""; at != above; above, at = at, filepath.Dir(at) {
		info, err := os.Stat(at)
		if err != nil {
			return err
		}
		owner := -1
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			owner = int(stat.Uid)
		}
		switch writable := info.Mode().Perm()&0o022 != 0; {
		case owner != 0 && owner != os.Getuid():
			return fmt.Errorf("%s belongs to somebody else, who could change %s", at, name)
		case writable && !(info.IsDir() && info.Mode()&os.ModeSticky != 0):
			return fmt.Errorf("others can write to %s (mode %04o), and so change %s: run chmod go-w on it",
				at, info.Mode().Perm(), name)
		}
	}
	return nil
}
