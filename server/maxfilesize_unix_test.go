//go:build linux || darwin || freebsd

package server_test

import (
	"io/fs"
	"runtime"
	"sync"
	"testing"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/wire"
)

// yieldingFile lets others go on between a question and what follows the answer.
type yieldingFile struct{ memFile }

func (y yieldingFile) Stat() (fs.FileInfo, error) {
	info, err := y.memFile.Stat()
	for range 10 {
		runtime.Gosched()
	}
	return info, err
}

// TestMaxFileSizeOfAppends: however many append at once, some of them by another name or while
// others set the size, no file becomes larger than the policy allows.
func TestMaxFileSizeOfAppends(t *testing.T) {
	const most = 20
	policy := &server.Policy{MaxFileSize: most}
	disk, err := osfs.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	inner, err := server.NewFolders(server.Folder{Path: "/", FS: disk,
		Policy: *policy})
	if err != nil {
		t.Fatal(err)
	}
	yielding := wrapping{memfs.New(0), func(f memFile) server.File { return yieldingFile{f} }}
	for name, backend := range map[string]server.FS{
		"one view": yielding, "in a folder": inner,
	} {
		t.Run(name, func(t *testing.T) {
			view, err := server.NewView(backend, policy)
			if err != nil {
				t.Fatal(err)
			}
			for range 50 {
				var writers sync.WaitGroup
				open := func(flags uint32) *server.ViewFile {
					f, err := view.Open(t.Context(), "/f", flags, wire.Attrs{})
					if err != nil {
						t.Fatal(err)
					}
					return f
				}
				var files []*server.ViewFile
				for range 8 {
					files = append(files, open(wire.OpenAppend|wire.OpenCreate))
				}
				for _, f := range files {
					writers.Go(func() {
						for range 4 {
							f.WriteAt([]byte("0123"), 0)
						}
						f.Close()
					})
				}
				at := open(wire.OpenWrite)
				writers.Go(func() {
					at.WriteAt([]byte("0"), most-1)
					at.Setstat(wire.Attrs{Flags: wire.AttrSize, Size: most - 2})
					view.Setstat(t.Context(), "/f",
						wire.Attrs{Flags: wire.AttrSize, Size: most - 3})
					at.Close()
				})
				writers.Wait()
				info, err := view.Stat(t.Context(), "/f")
				if err != nil || info.Size() > most || info.Size() < most-3 {
					t.Fatalf("%v, %v: want at most %d bytes", info, err, most)
				}
				if err := view.Remove(t.Context(), "/f"); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
