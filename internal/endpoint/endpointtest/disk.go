//go:build unix

package endpointtest

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// A Disk is a directory as another program sees and changes it, without the endpoint. Names are
// relative.
type Disk interface {
	Mkdir(name string)
	Write(name, data string)
	Append(name, data string)
	Symlink(text, name string)
	Pipe(name string)
	Rename(from, to string)
	Remove(name string) // with everything below it

	// State describes a name: "" for a missing one, "dir", "pipe", "= " and a file's contents, or "->
	// " and a link's text.
	State(name string) string
	// Attrs returns the permissions and the modification time; it follows links.
	Attrs(name string) (fs.FileMode, time.Time)
	// Names returns the names below a directory, sorted; it follows no links.
	Names(dir string) []string
}

// Directory returns a directory of this machine.
func Directory(t *testing.T, dir string) Disk { return directory{t, dir} }

type directory struct {
	t   *testing.T
	dir string
}

func (d directory) path(name string) string { return filepath.Join(d.dir, name) }

func (d directory) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Error(err)
	}
}

func (d directory) Mkdir(name string) { d.must(os.Mkdir(d.path(name), 0o755)) }
func (d directory) Write(name, data string) {
	d.must(os.WriteFile(d.path(name), []byte(data), 0o644))
}
func (d directory) Append(name, data string) {
	f, err := os.OpenFile(d.path(name), os.O_WRONLY|os.O_APPEND, 0)
	d.must(err)
	defer f.Close()
	_, err = f.WriteString(data)
	d.must(err)
}
func (d directory) Symlink(text, name string) { d.must(os.Symlink(text, d.path(name))) }
func (d directory) Pipe(name string)          { d.must(syscall.Mkfifo(d.path(name), 0o600)) }
func (d directory) Rename(from, to string)    { d.must(os.Rename(d.path(from), d.path(to))) }
func (d directory) Remove(name string)        { d.must(os.RemoveAll(d.path(name))) }

func (d directory) State(name string) string {
	name = d.path(name)
	info, err := os.Lstat(name)
	if err != nil {
		return ""
	}
	switch info.Mode().Type() {
	case fs.ModeDir:
		return "dir"
	case fs.ModeNamedPipe:
		return "pipe"
	case fs.ModeSymlink:
		text, _ := os.Readlink(name)
		return "-> " + text
	}
	data, err := os.ReadFile(name)
	d.must(err)
	return "= " + string(data)
}

func (d directory) Attrs(name string) (fs.FileMode, time.Time) {
	info, err := os.Stat(d.path(name))
	if err != nil {
		d.t.Fatal(err)
	}
	return info.Mode().Perm(), info.ModTime()
}

func (d directory) Names(dir string) (names []string) {
	d.must(fs.WalkDir(os.DirFS(d.path(dir)), ".", func(name string, _ fs.DirEntry, err error) error {
		if name != "." {
			names = append(names, name)
		}
		return err
	}))
	slices.Sort(names)
	return names
}

// Memory returns a directory of a scripted server.
func Memory(t *testing.T, files *sftptest.Files, dir string) Disk {
	return memory{t, files, dir}
}

type memory struct {
	t     *testing.T
	files *sftptest.Files
	dir   string
}

func (m memory) path(name string) string { return path.Join(m.dir, name) }

func (m memory) Mkdir(name string)         { m.files.Mkdir(m.path(name)) }
func (m memory) Write(name, data string)   { m.files.WriteFile(m.path(name), []byte(data)) }
func (m memory) Symlink(text, name string) { m.files.Symlink(text, m.path(name)) }
func (m memory) Remove(name string)        { m.files.Remove(m.path(name)) }

func (m memory) Append(name, data string) {
	if err := m.files.Append(m.path(name), []byte(data)); err != nil {
		m.t.Error(err)
	}
}

func (m memory) Pipe(name string) {
	m.Write(name, "")
	if err := m.files.SetMode(m.path(name), fs.ModeNamedPipe|0o600); err != nil {
		m.t.Error(err)
	}
}

func (m memory) Rename(from, to string) {
	if err := m.files.Rename(m.path(from), m.path(to)); err != nil {
		m.t.Error(err)
	}
}

func (m memory) State(name string) string {
	name = m.path(name)
	attrs, err := m.files.Lstat(name)
	if err != nil {
		return ""
	}
	switch wire.FileMode(attrs.Permissions).Type() {
	case fs.ModeDir:
		return "dir"
	case fs.ModeNamedPipe:
		return "pipe"
	case fs.ModeSymlink:
		for _, listed := range m.files.List() {
			if text, is := strings.CutPrefix(listed, name+" -> "); is {
				return "-> " + text
			}
		}
	}
	data, err := m.files.ReadFile(name)
	if err != nil {
		m.t.Error(err)
	}
	return "= " + string(data)
}

func (m memory) Attrs(name string) (fs.FileMode, time.Time) {
	attrs, err := m.files.Lstat(m.path(name))
	if err != nil {
		m.t.Fatal(err)
	}
	return wire.FileMode(attrs.Permissions).Perm(), time.Unix(int64(attrs.MTime), 0)
}

func (m memory) Names(dir string) (names []string) {
	for _, listed := range m.files.List() {
		name, _, _ := strings.Cut(listed, " -> ")
		if below, is := strings.CutPrefix(strings.TrimSuffix(name, "/"), m.path(dir)+"/"); is {
			names = append(names, below)
		}
	}
	slices.Sort(names)
	return names
}
