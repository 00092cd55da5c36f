package server_test

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/wire"
)

// gated is a tree in memory whose operations can be made to wait.
type gated struct {
	*memfs.FS
	mu    sync.Mutex
	gates map[string]chan struct{} // by operation and path, "write /f"
	open  atomic.Int64             // files that are open
	wrote atomic.Int64             // calls of WriteAt
	read  atomic.Int64             // calls of ReadAt
}

func newGated() *gated { return &gated{FS: memfs.New(0), gates: map[string]chan struct{}{}} }

// hold makes an operation wait until the returned function is called.
func (g *gated) hold(what string) (release func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	gate := make(chan struct{})
	g.gates[what] = gate
	return sync.OnceFunc(func() {
		g.mu.Lock()
		delete(g.gates, what)
		g.mu.Unlock()
		close(gate)
	})
}

func (g *gated) pass(what string) {
	g.mu.Lock()
	gate := g.gates[what]
	g.mu.Unlock()
	if gate != nil {
		<-gate
	}
}

func (g *gated) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	g.pass("stat " + name)
	return g.FS.Stat(ctx, name)
}

func (g *gated) Mkdir(ctx context.Context, name string, attrs wire.Attrs) error {
	g.pass("mkdir " + name)
	return g.FS.Mkdir(ctx, name, attrs)
}

func (g *gated) Open(ctx context.Context, name string, flags uint32,
	attrs wire.Attrs) (server.File, error) {
	g.pass("open " + name)
	file, err := g.FS.Open(ctx, name, flags, attrs)
	if err != nil {
		return nil, err
	}
	g.open.Add(1)
	return &gatedFile{memFile: file.(memFile), g: g, name: name}, nil
}

// memFile is what memfs's files implement.
type memFile interface {
	server.File
	ReadAt(p []byte, offset int64) (int, error)
	WriteAt(p []byte, offset int64) (int, error)
	server.FileStater
	server.FileSetstater
	server.FileSyncer
}

// wrapping is a tree in memory whose files are wrapped when they are opened.
type wrapping struct {
	*memfs.FS
	wrap func(file memFile) server.File
}

func (w wrapping) Open(ctx context.Context, name string, flags uint32,
	attrs wire.Attrs) (server.File, error) {
	file, err := w.FS.Open(ctx, name, flags, attrs)
	if err != nil {
		return nil, err
	}
	return w.wrap(file.(memFile)), nil
}

type gatedFile struct {
	memFile
	g    *gated
	name string
}

func (f *gatedFile) ReadAt(p []byte, offset int64) (int, error) {
	f.g.read.Add(1)
	f.g.pass("read " + f.name)
	f.g.pass(fmt.Sprintf("read %d %s", offset, f.name))
	return f.memFile.ReadAt(p, offset)
}

func (f *gatedFile) WriteAt(p []byte, offset int64) (int, error) {
	f.g.wrote.Add(1)
	// Only data that begins with "slow" waits.
	if strings.HasPrefix(string(p[:min(len(p), 4)]), "slow") {
		f.g.pass("write " + f.name)
	}
	return f.memFile.WriteAt(p, offset)
}

func (f *gatedFile) Close() error {
	f.g.open.Add(-1)
	return f.memFile.Close()
}
