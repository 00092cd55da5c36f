package usftp

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/usftp/usftp/wire"
)

// ReadFile reads a whole file. Its size is asked for at the same time as it is opened, so that a
// file of any size that the link holds takes two round trips.
func (c *Client) ReadFile(name string) ([]byte, error) {
	size := start(c.ctx, c.session, c.stat("stat", wire.TypeStat, name))
	f, err := c.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var data bytes.Buffer
	if info, err := size.Wait(); err == nil {
		f.remember(info.Sys().(*FileStat)) // a guess as good as any: the end is where EOF says
		data.Grow(int(min(max(info.Size(), 0), mostTrusted)) + 1)
	}
	_, err = f.WriteTo(&data)
	return data.Bytes(), err
}

// mostTrusted is how much memory is taken at once because a server says that a file is as large.
const mostTrusted = 4 << 20

// WriteFile writes a whole file, which it truncates, or creates with perm before the server's
// umask. After an error the file may hold part of the data. Three round trips, for data that the
// link holds.
func (c *Client) WriteFile(name string, data []byte, perm fs.FileMode) error {
	f, err := c.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
	if err != nil {
		return err
	}
	_, err = f.ReadFrom(bytes.NewReader(data))
	return errors.Join(err, f.Close())
}

// mostNames is how many random names are tried.
const mostNames = 1000

// CreateTemp makes a new file in a directory ("" is where relative paths start) and opens it for
// reading and writing, with mode 0600. Its name is pattern, with its last "*" replaced by random
// digits, which stand at the end where there is none. Removing it is the caller's job. One round
// trip.
func (c *Client) CreateTemp(dir, pattern string) (*File, error) {
	var f *File
	err := tryNames("createtemp", dir, pattern, func(name string) (err error) {
		const exclusive = os.O_CREATE | os.O_EXCL
		if !c.noReadWrite.Load() {
			f, err = c.OpenFile(name, os.O_RDWR|exclusive, 0o600)
			if err == nil || errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) ||
				c.fatal(err) != nil {
				return err
			}
		}
		refusal := err
		if f, err = c.OpenFile(name, os.O_WRONLY|exclusive, 0o600); err != nil && refusal != nil {
			return refusal
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// MkdirTemp makes a new directory in a directory, with mode 0700, and returns its name; see
// [Client.CreateTemp].
func (c *Client) MkdirTemp(dir, pattern string) (string, error) {
	var made string
	err := tryNames("mkdirtemp", dir, pattern, func(name string) error {
		made = name
		message := wire.PathAttrs{Type: wire.TypeMkdir, Path: name, Attrs: toMode(0o700).Attrs}
		_, err := run(c.ctx, c.command("mkdir", name, message).orExists(name))
		return err
	})
	if err != nil {
		return "", err
	}
	return made, nil
}

// tryNames tries random names until one is not taken.
func tryNames(op, dir, pattern string, try func(name string) error) error {
	if strings.Contains(pattern, "/") {
		return &fs.PathError{Op: op, Path: pattern, Err: errors.New("the pattern contains a slash")}
	}
	prefix, suffix := pattern, ""
	if i := strings.LastIndexByte(pattern, '*'); i >= 0 {
		prefix, suffix = pattern[:i], pattern[i+1:]
	}
	var err error
	for range mostNames {
		name := prefix + strconv.FormatUint(uint64(rand.Uint32()), 10) + suffix
		if err = try(path.Join(dir, name)); !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return err
}

// ReadFromWithConcurrency is [File.ReadFrom]: how many requests are in flight follows from the
// link, not from concurrency.
func (f *File) ReadFromWithConcurrency(r io.Reader, concurrency int) (int64, error) {
	return f.ReadFrom(r)
}
