//go:build unix

package transfer_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// While a file is fetched, a link takes the place of the directory that it is for. Nothing is put
// where the link leads, and what it leads to keeps its attributes.
func TestLocalDirectorySwappedWhileItIsFilled(t *testing.T) {
	var dir string
	swapped := false
	b := newTreeBench(t, sftptest.Script{
		Intercept: func(r sftptest.Request) []sftptest.Action {
			if r.Type == wire.TypeRead && r.Path == "/tree/d/file" && !swapped {
				swapped = true
				swapForLink(t, filepath.Join(dir, "d"), filepath.Join(dir, "aside"), "other")
			}
			return nil
		}}, sftptest.LinkConfig{})
	b.server.Files.WriteFile("/tree/d/file", []byte("data"))
	if err := b.server.Files.SetMode("/tree/d", fs.ModeDir|0o755); err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(b.dir, "out")
	other := filepath.Join(dir, "other")
	if err := os.MkdirAll(other, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(other, oldTime, oldTime); err != nil {
		t.Fatal(err)
	}
	summary, err := b.tree(download, "/tree", dir, func(j *treeJob) {
		j.Options.Preserve, j.Options.NoTargetDirectory = true, true
	})
	info, lookErr := os.Lstat(other)
	if lookErr != nil {
		t.Fatal(lookErr)
	}
	if info.Mode() != fs.ModeDir|0o700 || !info.ModTime().Equal(oldTime) {
		t.Errorf("what the link leads to has the mode %v and the time %v", info.Mode(),
			info.ModTime())
	}
	if !swapped || summary.Failed != 2 || err == nil ||
		!strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("swapped %v: %+v, %v", swapped, summary.Totals, err)
	}
	if left, err := os.ReadDir(other); err != nil || len(left) > 0 {
		t.Errorf("the file was put where the link leads: %v, %v", left, err)
	}
}

// While a file is fetched, a named pipe takes the place of the directory that it is for. Nobody
// ever writes to the pipe, so whoever opened it would wait for ever.
func TestLocalDirectorySwappedForAPipe(t *testing.T) {
	dir := ""
	b := newTreeBench(t, sftptest.Script{
		Intercept: func(r sftptest.Request) []sftptest.Action {
			if r.Type == wire.TypeRead && r.Path == "/tree/d/file" {
				os.Rename(filepath.Join(dir, "d"), filepath.Join(dir, "aside"))
				syscall.Mkfifo(filepath.Join(dir, "d"), 0o600)
			}
			return nil
		}}, sftptest.LinkConfig{})
	b.server.Files.WriteFile("/tree/d/file", []byte("data"))
	dir = filepath.Join(b.dir, "out")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := b.tree(download, "/tree", dir,
			func(j *treeJob) { j.Options.NoTargetDirectory = true })
		ended <- err
	}()
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "not a directory") {
			t.Errorf("the error is %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("it waits for the pipe")
		if pipe, err := os.OpenFile(filepath.Join(dir, "d"), os.O_RDWR, 0); err == nil {
			defer pipe.Close()
		}
		<-ended
	}
}

// A directory that is moved away while files are copied into it takes them along: that is an error,
// whatever has its name by then. Attributes are not set on what is another's.
func TestLocalDirectoryMovedWhileItIsFilled(t *testing.T) {
	for _, test := range []struct{ name, moved string }{{"below", "d"}, {"the target", "."}} {
		for _, remade := range []bool{true, false} {
			t.Run(fmt.Sprint(test.name, ", remade: ", remade), func(t *testing.T) {
				swapped, gate := false, new(sftptest.Gate)
				b := newTreeBench(t, sftptest.Script{Faults: []sftptest.Fault{{On: wire.TypeRead,
					Path: "/tree/d/other", Do: sftptest.Hold(gate)}}}, sftptest.LinkConfig{})
				b.server.Files.WriteFile("/tree/d/file", []byte("data"))
				b.server.Files.WriteFile("/tree/d/other", []byte("data"))
				dir := filepath.Join(b.dir, "out")
				s, err := b.tree(download, "/tree", dir, func(j *treeJob) {
					j.Options.Preserve, j.Options.NoTargetDirectory = true, true
					j.Options.Events = func(e transfer.Event) {
						if e.Kind != transfer.Done || swapped { // the first file is there
							return
						}
						swapped = true
						moved := filepath.Join(dir, test.moved)
						err := os.Rename(moved, dir+".aside")
						if remade && err == nil {
							err = os.Mkdir(moved, 0o700)
						}
						if err != nil {
							t.Error(err)
						}
						gate.Open()
					}
				})
				if !swapped || s.Failed != 1 || !errors.Is(err, endpoint.ErrWentAlong) {
					t.Errorf("swapped %v: %+v, %v", swapped, s.Totals, err)
				}
				info, err := os.Stat(filepath.Join(dir, test.moved))
				if remade && (err != nil || info.Mode().Perm() != 0o700) {
					t.Errorf("the other directory has become %v, %v", info, err)
				}
			})
		}
	}
	t.Run("a single file", func(t *testing.T) {
		var dir string
		b := newTreeBench(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
			if r.Type == wire.TypeRead {
				os.Rename(dir, dir+".aside")
				os.Mkdir(dir, 0o755)
			}
			return nil
		}}, sftptest.LinkConfig{})
		b.server.Files.WriteFile("/file", []byte("data"))
		dir = filepath.Join(b.dir, "out")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if _, err := b.job(download, "/file", filepath.Join(dir, "file")); !errors.Is(err,
			endpoint.ErrWentAlong) {
			t.Errorf("it ends with %v", err)
		}
	})
}
