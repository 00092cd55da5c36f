package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
)

// flushed is a directory that records what happens to it and its files, in order.
type flushed struct {
	fs.LoopbackNode
	*happened
}

type happened struct {
	mu  sync.Mutex
	all []string
}

func (h *happened) add(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, what)
}

// take returns what has happened since the last time.
func (h *happened) take() (all []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all, h.all = h.all, nil
	return all
}

func (n *flushed) WrapChild(context.Context, fs.InodeEmbedder) fs.InodeEmbedder {
	return &flushed{fs.LoopbackNode{RootData: n.RootData}, n.happened}
}

func (n *flushed) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	if n.IsDir() {
		n.add("fsync of the directory")
	} else {
		n.add("fsync")
	}
	return 0
}

func (n *flushed) Rename(ctx context.Context, name string, to fs.InodeEmbedder, toName string,
	flags uint32) syscall.Errno {
	n.add("rename")
	return n.LoopbackNode.Rename(ctx, name, to, toName, flags)
}

// OpendirHandle opens a directory that cannot be listed, so that it is flushed through its node.
func (n *flushed) OpendirHandle(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, 0, 0
}

func (n *flushed) Setattr(ctx context.Context, f fs.FileHandle, in *fuse.SetAttrIn,
	out *fuse.AttrOut) syscall.Errno {
	if in.Valid&fuse.FATTR_MTIME != 0 {
		n.add("time")
	}
	return n.LoopbackNode.Setattr(ctx, f, in, out)
}

// TestSizeBeforeData: what has its final size before its data is on the disk before it has its name
// and the source's time. After a power failure, the next run would take it for complete. Other files
// are not flushed without Sync, which flushes their names, too: they would be too short.
func TestSizeBeforeData(t *testing.T) {
	size := 3 << 20
	old, sparse := random(size), random(size)
	clear(sparse[size/2:])
	changed := bytes.Clone(old)
	clear(changed[1<<20:][:4096])
	for name, test := range map[string]struct {
		way    way
		data   []byte
		change func(*transfer.Options)
		isNew  bool
		no     bool
	}{
		"plain upload":       {way: upload, data: changed, no: true},
		"plain download":     {way: download, data: changed, no: true},
		"delta upload":       {way: upload, data: changed, change: deltaAlways},
		"delta download":     {way: download, data: changed, change: deltaAlways},
		"upload in place":    {way: upload, data: changed, change: inPlace},
		"download in place":  {way: download, data: changed, change: inPlace},
		"new file in place":  {way: download, data: changed, change: inPlace, isNew: true, no: true},
		"blocks of zeros":    {way: download, data: sparse, change: holes},
		"a few zeros":        {way: download, data: sparse[size/2-9:][:20], change: holes, no: true},
		"flushed download":   {way: download, data: changed, change: flushes},
		"flushed local copy": {way: local, data: changed, change: flushes},
		"a sparse local one": {way: local, data: sparse, change: holes, no: true},
	} {
		t.Run(name, func(t *testing.T) {
			disk := t.TempDir()
			root := &flushed{fs.LoopbackNode{RootData: &fs.LoopbackRoot{Path: t.TempDir()}},
				new(happened)}
			root.RootData.RootNode = root
			mounts(t, disk, root)
			src, dst := t.TempDir(), disk
			host := hostIn(t, src)
			if test.way == upload {
				host = hostIn(t, disk)
			}
			if err := os.WriteFile(filepath.Join(src, "file"), test.data, 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dst, "file"), old, 0o644); !test.isNew && err != nil {
				t.Fatal(err)
			} else if test.isNew {
				os.Remove(filepath.Join(dst, "file"))
			}
			from, to := src, dst
			if test.way == upload {
				to = "/"
			} else if test.way == download {
				from = "/"
			}
			target, source := test.way.endpoints(host, host, from, to, nil, nil)
			o := transfer.TreeOptions{}
			o.NoTargetDirectory, o.Delta = true, transfer.DeltaNever
			if test.change != nil {
				test.change(&o.Options)
			}
			root.take()
			if _, err := transfer.CopyTree(t.Context(), target, source, o); err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(filepath.Join(dst, "file")); !bytes.Equal(got, test.data) {
				t.Fatalf("the target differs, %v", err)
			}
			all := root.take()
			flush := slices.Index(all, "fsync")
			if test.no != (flush < 0) || test.way == download && flush > slices.Index(all, "time") {
				t.Errorf("there were %q", all)
			}
			named := slices.Index(all, "fsync of the directory")
			if strings.HasPrefix(name, "flushed") != (named > slices.Index(all, "rename")) {
				t.Errorf("there were %q", all)
			}
		})
	}
}

func deltaAlways(o *transfer.Options) { o.Delta = transfer.DeltaAlways }
func inPlace(o *transfer.Options)     { o.Placement = transfer.PlaceDirect }
func holes(o *transfer.Options)       { o.Sparse = true }
func flushes(o *transfer.Options)     { o.Sync = true }

// TestTargetThatExistsIsNotNoted: the journal never says that an existing directory is what an
// interrupted copy made. If the run were killed then, the next one would copy into it, and not into
// one of the source's name.
func TestTargetThatExistsIsNotNoted(t *testing.T) {
	for _, direction := range []way{upload, download} {
		t.Run(direction.String(), func(t *testing.T) {
			journal := filepath.Join(t.TempDir(), "journal")
			var early happened
			b := newTreeBench(t, sftptest.Script{Intercept: func(sftptest.Request) []sftptest.Action {
				marks, _ := filepath.Glob(filepath.Join(journal, "*.tree.json"))
				for _, mark := range marks {
					early.add(mark)
				}
				return nil
			}}, sftptest.LinkConfig{})
			source, target := filepath.Join(b.dir, "source"), "/target"
			if direction == download {
				source, target = "/source", filepath.Join(b.dir, "target")
			}
			for _, dir := range []string{"source", "target"} {
				fill(t, filepath.Join(b.dir, dir), "a")
				b.server.Files.WriteFile("/"+dir+"/a", []byte("a"))
			}
			_, err := b.tree(direction, source, target,
				func(j *treeJob) { j.Options.Journal = journal })
			if marks := early.take(); err != nil || len(marks) > 0 {
				t.Errorf("%q, %v", marks, err)
			}
		})
	}
}

// TestNoteWithoutContents: after a power failure the note of a run may be empty. Its temporary files
// are removed all the same.
func TestNoteWithoutContents(t *testing.T) {
	b := newTreeBench(t, sftptest.Script{}, sftptest.LinkConfig{})
	source, target := filepath.Join(b.dir, "source"), filepath.Join(b.dir, "target")
	fill(t, source, "a", "dir/b")
	journal := filepath.Join(b.dir, "journal")
	run := func(during func()) {
		_, err := b.tree(local, source, target, func(j *treeJob) {
			j.Options.Journal, j.Options.NoTargetDirectory = journal, true
			j.Options.Events = func(transfer.Event) { during() }
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var note string
	run(func() {
		if notes, _ := filepath.Glob(filepath.Join(journal, "*.run.json")); len(notes) == 1 {
			note = notes[0]
		}
	})
	_, token, _ := strings.Cut(strings.TrimSuffix(note, ".run.json"), ".")
	if token == "" {
		t.Fatalf("no note, but %q", note)
	}
	left := filepath.Join(target, "dir", ".b.usftp-"+token+"0000")
	for _, name := range []string{note, left} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run(func() {})
	if _, err := os.Lstat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is left behind: %v", err)
	}
}
