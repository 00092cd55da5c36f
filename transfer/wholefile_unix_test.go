//go:build linux || darwin || freebsd

package transfer_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/transfer"
)

// smallTree makes a tree of small files of many sizes, in some directories.
func smallTree(t *testing.T, dir string, files, folders int) (contents map[string][]byte) {
	t.Helper()
	contents = map[string][]byte{}
	for i := range files {
		name := fmt.Sprintf("d%d/f%d", i%folders, i)
		data := bytes.Repeat([]byte{byte(i)}, i%40*100)
		mustDo(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
		mustDo(t, os.WriteFile(filepath.Join(dir, name), data, 0o640))
		mustDo(t, os.Chtimes(filepath.Join(dir, name), oldTime, oldTime))
		contents[name] = data
	}
	return contents
}

// sameTree compares a tree on this machine.
func sameTree(t *testing.T, dir string, want map[string][]byte) {
	t.Helper()
	files := 0
	mustDo(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		rel, _ := filepath.Rel(dir, name)
		data, err := os.ReadFile(name)
		if have, ok := want[rel]; !ok || !bytes.Equal(data, have) {
			t.Errorf("%s has %d bytes, want %d", rel, len(data), len(have))
		}
		if info, statErr := d.Info(); statErr == nil && !info.ModTime().Equal(oldTime) {
			t.Errorf("%s has the time %v", rel, info.ModTime())
		}
		return err
	}))
	if files != len(want) {
		t.Errorf("there are %d files, want %d", files, len(want))
	}
}

// smallHosts are hosts with everything that our servers serve, and whether these take and send
// several files in one request.
func smallHosts(t *testing.T) map[string]*uploadsHost {
	plain, err := osfs.New(t.TempDir())
	mustDo(t, err)
	t.Cleanup(func() { plain.Close() })
	return map[string]*uploadsHost{
		"directory": {t: t, files: plain},
		"complete":  newUploadsHost(t),
		"memory":    {t: t, files: memfs.New(0)},
		"denied":    {t: t, files: memfs.New(0), denied: []string{"put-files", "get-files"}},
		"no rename": {t: t, files: memfs.New(0), denied: []string{"posix-rename"}},
	}
}

// TestSmallFilesTogether: small files of a tree share requests, also if they replace others or are
// synced to the disk. Hosts that do not offer that get and send the same.
func TestSmallFilesTogether(t *testing.T) {
	const files = 500
	questions := map[string]float64{"directory": 1, "memory": 1, "complete": 2}
	for name, h := range smallHosts(t) {
		t.Run(name, func(t *testing.T) {
			h.t = t
			dir := t.TempDir()
			source, back := filepath.Join(dir, "source"), filepath.Join(dir, "back")
			contents := smallTree(t, source, files, 7)
			host := h.connect(0)
			shares := func(what string, run func() (transfer.Summary, error)) {
				t.Helper()
				before := host.Client.Stats().Requests
				r, err := run()
				if err != nil || r.Files != files {
					t.Fatalf("%s: %d files, %v", what, r.Files, err)
				}
				per := float64(host.Client.Stats().Requests-before) / files
				most := 1.5         // one request for each file if none wait; steps take at least 3
				if what == "sync" { // each target is looked at
					most += questions[name]
				}
				together := h.denied == nil || strings.Contains(what, "down") && name == "no rename"
				if together != (per <= most) {
					t.Errorf("%s: %.2f requests for each file", what, per)
				}
			}
			options := transfer.TreeOptions{}
			options.Preserve = true
			shares("up", func() (transfer.Summary, error) {
				return transfer.CopyTree(t.Context(), transfer.Remote(host, "/a"),
					transfer.Local(source), options)
			})
			shares("down", func() (transfer.Summary, error) {
				return transfer.CopyTree(t.Context(), transfer.Local(back),
					transfer.Remote(host, "/a"), options)
			})
			sameTree(t, back, contents)

			for file, data := range contents {
				contents[file] = append(data, "more"...)
				mustDo(t, os.WriteFile(filepath.Join(source, file), contents[file], 0o640))
				mustDo(t, os.Chtimes(filepath.Join(source, file), oldTime, oldTime))
			}
			shares("sync", func() (transfer.Summary, error) {
				return transfer.Sync(t.Context(), transfer.Remote(host, "/a"), transfer.Local(source),
					transfer.SyncOptions{TreeOptions: options})
			})
			shares("sync down", func() (transfer.Summary, error) {
				return transfer.Sync(t.Context(), transfer.Local(back), transfer.Remote(host, "/a"),
					transfer.SyncOptions{TreeOptions: options})
			})
			sameTree(t, back, contents)
			options.Sync = true
			shares("durably", func() (transfer.Summary, error) {
				return transfer.CopyTree(t.Context(), transfer.Remote(host, "/b"),
					transfer.Local(source), options)
			})
		})
	}
}

// TestSmallFilesRefused: files that the host refuses fail, each by itself, with the host's reason
// and the name that the user knows.
func TestSmallFilesRefused(t *testing.T) {
	h := smallHosts(t)["directory"]
	dir := t.TempDir()
	contents := smallTree(t, filepath.Join(dir, "source"), 100, 7)
	host := h.connect(0)
	mustDo(t, host.Client.MkdirAll("/copy/d3/f3"))
	mustDo(t, host.Client.Mkdir("/copy/d4"))
	mustDo(t, host.Client.WriteFile("/copy/d4/f4", []byte("older"), 0o600))
	var failed []string
	options := transfer.TreeOptions{Options: transfer.Options{Events: func(e transfer.Event) {
		if e.Kind == transfer.Failed {
			failed = append(failed, e.Err.Error())
		}
	}}}
	options.NoTargetDirectory = true
	r, err := transfer.CopyTree(t.Context(), transfer.Remote(host, "/copy"),
		transfer.Local(filepath.Join(dir, "source")), options)
	if err == nil || r.Failed != 1 || r.Files != 99 || len(failed) != 1 ||
		!strings.Contains(failed[0], "/copy/d3/f3") || !strings.Contains(failed[0], "directory") {
		t.Errorf("%d files, %d failed, %v: %q", r.Files, r.Failed, err, failed)
	}
	delete(contents, "d3/f3")
	_, err = transfer.CopyTree(t.Context(), transfer.Local(filepath.Join(dir, "back")),
		transfer.Remote(host, "/copy"), transfer.TreeOptions{})
	mustDo(t, err)
	sameTree(t, filepath.Join(dir, "back"), contents)
}

// TestSmallFilesOverQuota: what fits arrives, the rest fails with the reason, and nothing is left
// of it.
func TestSmallFilesOverQuota(t *testing.T) {
	for name, h := range smallHosts(t) {
		if h.denied != nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			h.t, h.quota = t, server.NewQuota(50_000, 1000)
			dir := t.TempDir()
			smallTree(t, filepath.Join(dir, "source"), 100, 7)
			host := h.connect(0)
			r, err := transfer.CopyTree(t.Context(), transfer.Remote(host, "/copy"),
				transfer.Local(filepath.Join(dir, "source")), transfer.TreeOptions{})
			if err == nil || !strings.Contains(err.Error(), "no space left") || r.Files == 0 || r.Failed == 0 {
				t.Errorf("%d files, %d failed, %v", r.Files, r.Failed, err)
			}
			if names := h.everything("/copy"); len(names) != int(r.Files) {
				t.Errorf("%d files arrived, and there are %q", r.Files, names)
			}
		})
	}
}

// TestSmallFilesCut: a connection that is cut in the middle of requests is replaced, and all files
// arrive, whole, with nothing left over.
func TestSmallFilesCut(t *testing.T) {
	for name, h := range smallHosts(t) {
		if h.denied != nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			h.t = t
			dir := t.TempDir()
			source, back := filepath.Join(dir, "source"), filepath.Join(dir, "back")
			contents := smallTree(t, source, 300, 7)
			var cuts atomic.Int64
			options := transfer.TreeOptions{}
			options.Retries = 10
			options.Backoff = func(int) time.Duration { return time.Millisecond }
			redialed := func(most int) pool.Host {
				host := h.connect(most)
				host.Redial = func(context.Context) (pool.Host, error) {
					<-h.ended // otherwise it could still create a temporary file that is removed now
					most := 0
					if cuts.Add(1) < 4 {
						most = 100_000
					}
					return h.connect(most), nil
				}
				return host
			}
			r, err := transfer.CopyTree(t.Context(), transfer.Remote(redialed(30_000), "/copy"),
				transfer.Local(source), options)
			if err != nil || r.Files != 300 || cuts.Load() < 3 {
				t.Fatalf("%d files, %v, after %d cuts", r.Files, err, cuts.Load())
			}
			if names := h.everything("/copy"); len(names) != 300 {
				t.Errorf("there are %d files: %q", len(names), names)
			}
			_, err = transfer.CopyTree(t.Context(), transfer.Local(back),
				transfer.Remote(redialed(3000), "/copy"), options)
			mustDo(t, err)
			sameTree(t, back, contents)
		})
	}
}

// everything returns the paths of all files in a directory, also of those that are left over.
func (h *uploadsHost) everything(dir string) (names []string) {
	h.t.Helper()
	client := h.connect(0).Client
	mustDo(h.t, fs.WalkDir(client.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, name)
		}
		return err
	}))
	slices.Sort(names)
	return names
}
