//go:build linux || darwin

package sftpfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// rescue saves data that could not be written in a local file, at its original offsets, with a list
// of the ranges next to it. All such data of one open file goes to one rescue file, which is logged
// when it is made.
func (f *file) rescue(cause error, extents []*extent) {
	if len(extents) == 0 {
		return
	}
	f.rescuing.Lock()
	defer f.rescuing.Unlock()
	remote, _ := f.fs.tree.path(f.node)
	before := f.rescued
	err := f.keep(remote, extents)
	if err != nil {
		f.fs.options.Logger.Error("written data was lost", "file", remote, "error", cause, "rescue",
			err)
	} else if f.rescued != before {
		f.fs.options.Logger.Error("written data did not reach the host; it was kept in a local file", "file",
			remote, "error", cause, "kept", f.rescued)
	}
}

var errNoRescue = errors.New("no directory for rescue files")

// keep adds data to the rescue file. The caller holds the lock.
func (f *file) keep(remote string, extents []*extent) error {
	file, err := os.OpenFile(f.rescued, os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrNotExist) { // not made yet, or removed by the user
		file, err = f.fs.newRescue(remote)
	}
	if err != nil {
		return err
	}
	f.rescued = file.Name()
	var ranges strings.Builder
	for _, e := range extents {
		appended := ""
		if e.appends {
			appended = " appended"
		}
		fmt.Fprintf(&ranges, "%d %d%s\n", e.off, len(e.data), appended)
		_, werr := file.WriteAt(e.data, e.off)
		err = errors.Join(err, werr)
	}
	return errors.Join(err, file.Sync(), file.Close(), appendText(rangesOf(f.rescued),
		ranges.String()))
}

// newRescue makes a rescue file, and the list of its ranges, which begins with the name of the file
// on the host.
func (f *FS) newRescue(remote string) (*os.File, error) {
	dir := f.options.RescueDir
	if dir == "" {
		return nil, errNoRescue
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	base := strings.Map(func(r rune) rune {
		if r == '/' || r < ' ' || r == 0x7f {
			return '_'
		}
		return r
	}, f.options.HostName+"-"+path.Base(remote))
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	base = strings.ToValidUTF8(base[:min(len(base), 128)], "_") // macOS makes no other names
	file, err := os.CreateTemp(dir, base+"-"+
		time.Now().UTC().Format("20060102T150405")+"-*")
	if err != nil {
		return nil, err
	}
	err = appendText(rangesOf(file.Name()), fmt.Sprintf("%s:%s\n", f.options.HostName, remote))
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

func rangesOf(rescue string) string { return rescue + ".ranges" }

func appendText(name, text string) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}
