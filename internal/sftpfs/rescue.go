//go:build linux || darwin

package sftpfs

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// rescue saves data that could not be written in a local file, at its original offsets, with a list
// of the ranges next to it, and logs the file's name.
func (f *FS) rescue(remote string, cause error, extents []*extent) {
	if len(extents) == 0 {
		return
	}
	name, err := f.keep(remote, extents)
	if err != nil {
		f.options.Logger.Error("written data is lost", "file", remote, "error", cause, "rescue",
			err)
		return
	}
	f.options.Logger.Error("written data is not on the host; it was kept here", "file", remote,
		"error", cause, "kept", name)
}

var errNoRescue = errors.New("there is no directory for rescue files")

func (f *FS) keep(remote string, extents []*extent) (name string, err error) {
	dir := f.options.RescueDir
	if dir == "" {
		return "", errNoRescue
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	base := strings.Map(func(r rune) rune {
		if r == '/' || r < ' ' || r == 0x7f {
			return '_'
		}
		return r
	}, f.options.HostName+"-"+path.Base(remote))
	file, err := os.CreateTemp(dir, base[:min(len(base), 128)]+"-"+
		time.Now().UTC().Format("20060102T150405")+"-*")
	if err != nil {
		return "", err
	}
	ranges := fmt.Sprintf("%s:%s\n", f.options.HostName, remote)
	for _, e := range extents {
		where := fmt.Sprintf("%d %d\n", e.off, len(e.data))
		if e.appends {
			where = fmt.Sprintf("%d %d appended\n", e.off, len(e.data))
		}
		ranges += where
		if _, werr := file.WriteAt(e.data, e.off); werr != nil && err == nil {
			err = werr
		}
	}
	err = errors.Join(err, file.Sync(), file.Close(),
		os.WriteFile(file.Name()+".ranges", []byte(ranges), 0o600))
	abs, absErr := filepath.Abs(file.Name())
	if absErr != nil {
		abs = file.Name()
	}
	return abs, err
}
