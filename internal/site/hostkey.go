package site

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/server/sshd"
)

// defaultHostKeys returns the files for host keys that clients should recognize later.
func defaultHostKeys(types []string) (names []string, err error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return nil, fmt.Errorf("no directory for the host key (%w): name a file with --host-key", err)
	}
	dir = filepath.Join(dir, "usftp")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, FileError("cannot make the directory for the host key,", dir, err)
	}
	for _, kind := range types {
		names = append(names, filepath.Join(dir, "host_"+kind+"_key"))
	}
	return names, nil
}

// loadHostKeys refuses a key that others can read, as sshd does: they could impersonate the server.
// Missing keys are made, or left out, if there is a directory for them.
func loadHostKeys(names []string, missing bool) ([]ssh.Signer, error) {
	there := names[:0:0]
	for _, name := range names {
		info, err := os.Stat(name)
		if missing || !errors.Is(err, fs.ErrNotExist) {
			there = append(there, name)
		} else if _, err := os.Stat(filepath.Dir(name)); err != nil {
			return nil, FileError("cannot create the host key", name, err)
		}
		if err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
			return nil, fmt.Errorf("others can read the host key %s (mode %04o): run chmod 600 on it", name, info.Mode().Perm())
		}
	}
	keys, err := sshd.LoadHostKeys(there...)
	if path, ok := errors.AsType[*os.PathError](err); ok {
		return nil, FileError("cannot read or create the host key", path.Path, err)
	}
	return keys, err
}
