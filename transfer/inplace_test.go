package transfer_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// cutting are hosts by how they change the size of an existing file.
var cutting = map[string]func(r sftptest.Request) []sftptest.Action{
	"as it should be": func(sftptest.Request) []sftptest.Action { return nil },
	"never cut": func(r sftptest.Request) []sftptest.Action {
		if r.Type == wire.TypeFsetstat && r.Attrs.Has(wire.AttrSize) {
			return []sftptest.Action{sftptest.Refuse(wire.OpUnsupported, "")}
		}
		return nil
	},
	"cut in name only": func(r sftptest.Request) []sftptest.Action {
		if r.Type == wire.TypeFsetstat && r.Attrs.Has(wire.AttrSize) {
			return []sftptest.Action{sftptest.Refuse(wire.OK, "")}
		}
		return nil
	},
	"attributes never set": func(r sftptest.Request) []sftptest.Action {
		if r.Type == wire.TypeFsetstat || r.Type == wire.TypeSetstat {
			return []sftptest.Action{sftptest.Refuse(wire.PermissionDenied, "")}
		}
		return nil
	},
	"only whole files": func(r sftptest.Request) []sftptest.Action {
		if r.Type == wire.TypeFsetstat || r.Type == wire.TypeOpen && r.Flags&wire.OpenWrite != 0 &&
			r.Flags&wire.OpenTruncate == 0 {
			return []sftptest.Action{sftptest.Refuse(wire.OpUnsupported, "")}
		}
		return nil
	},
}

// TestOverAnOldFile: a file written in place over an older one is that file and nothing more,
// however long the old one was, and whatever a host allows.
func TestOverAnOldFile(t *testing.T) {
	t.Parallel()
	for _, direction := range []way{upload, download, relay, local} {
		for name, intercept := range cutting {
			if name != "as it should be" && (direction == download || direction == local) {
				continue // nothing is written on a host
			}
			t.Run(fmt.Sprintf("%v, %s", direction, name), func(t *testing.T) {
				for _, sizes := range [][2]int{{5, 0}, {0, 5}, {9, 5}, {5, 5}, {700e3, 5},
					{3e6, 3e6},
					{5e6, 3e6}, {3e6, 5e6}} {
					b := newTreeBench(t, sftptest.Script{Intercept: intercept},
						sftptest.LinkConfig{})
					from := newTreeBench(t, sftptest.Script{}, sftptest.LinkConfig{})
					old, data := bytes.Repeat([]byte("o"), sizes[0]), random(sizes[1])
					source, target := b.local("source", data), "/target"
					if direction == download || direction == relay {
						source = "/source"
					}
					if direction == download || direction == local {
						target = b.local("target", old)
					}
					from.server.Files.WriteFile("/source", data)
					b.server.Files.WriteFile("/source", data)
					b.server.Files.WriteFile("/target", old)
					b.server.Files.SetModTime("/target", oldTime)
					result, err := b.job(direction, source, target, func(j *copyJob) {
						j.From, j.Options.Placement = from.host, transfer.PlaceDirect
					})
					got := b.remote("/target")
					if direction == download || direction == local {
						got = b.read("target")
					}
					if err != nil || !result.InPlace || !bytes.Equal(got, data) {
						t.Errorf("%d bytes over %d: %+v, %v, %d are there", sizes[1], sizes[0],
							result, err, len(got))
					}
				}
			})
		}
	}
}

// TestCutThatEmpties: paramiko's SFTPServer.set_file_attr empties a file to cut it, and fills it with
// zeros up to its size. So a file there that is written in place is emptied first, and what is kept
// of an upload is not cut.
func TestCutThatEmpties(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var files *sftptest.Files
		b := newBench(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
			if r.Type == wire.TypeFsetstat && r.Attrs.Has(wire.AttrSize) {
				files.WriteFile(r.Path, nil)
			}
			return nil
		}}, sftptest.LinkConfig{}, usftp.WithServerVersion("SSH-2.0-paramiko_2.12.0"))
		files = b.server.Files
		data := random(12 << 20)
		source := b.local("source", data)
		files.WriteFile("/target", random(13<<20))
		if _, err := b.job(upload, source, "/target", func(j *copyJob) {
			j.Options.Placement = transfer.PlaceDirect
		}); err != nil || !bytes.Equal(b.remote("/target"), data) {
			t.Errorf("in place: %v, %d bytes are there", err, len(b.remote("/target")))
		}

		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		slowly := func(j *copyJob) {
			j.Options.Journal, j.Options.Resume = filepath.Join(b.dir, "journal"), true
			j.Options.RateLimit = 4 << 20
		}
		if first, err := b.jobContext(ctx, upload, source, "/new", slowly); err == nil ||
			first.LeftBehind == "" {
			t.Fatalf("%+v, %v", first, err)
		}
		result, err := b.job(upload, source, "/new", slowly)
		if err != nil || result.Resumed == 0 || !bytes.Equal(b.remote("/new"), data) {
			t.Errorf("resumed: %+v, %v", result, err)
		}
	})
}

// TestTreeOverOldFiles is TestOverAnOldFile for the files of trees, small ones among them.
func TestTreeOverOldFiles(t *testing.T) {
	t.Parallel()
	for _, direction := range []way{upload, download, relay} {
		for name, intercept := range cutting {
			if name != "as it should be" && direction == download {
				continue
			}
			t.Run(fmt.Sprintf("%v, %s", direction, name), func(t *testing.T) {
				b := newTreeBench(t, sftptest.Script{Intercept: intercept}, sftptest.LinkConfig{})
				from := newTreeBench(t, sftptest.Script{}, sftptest.LinkConfig{})
				files := map[string][]byte{}
				for _, dir := range []string{"tree", "target"} {
					if err := os.Mkdir(filepath.Join(b.dir, dir), 0o755); err != nil {
						t.Fatal(err)
					}
					b.server.Files.Mkdir("/" + dir)
					from.server.Files.Mkdir("/" + dir)
				}
				for _, sizes := range [][2]int{{5, 0}, {0, 5}, {9, 5}, {5, 5}, {700e3, 5},
					{5, 700e3}, {5e6, 3e6}} {
					name := fmt.Sprint(sizes)
					files[name] = random(sizes[1])
					old := bytes.Repeat([]byte("o"), sizes[0])
					b.local("tree/"+name, files[name])
					from.server.Files.WriteFile("/tree/"+name, files[name])
					if direction == download {
						b.server.Files.WriteFile("/tree/"+name, files[name])
						b.local("target/"+name, old)
						continue
					}
					b.server.Files.WriteFile("/target/"+name, old)
					b.server.Files.SetModTime("/target/"+name, oldTime)
				}
				source, target := filepath.Join(b.dir, "tree"), "/target"
				if direction != upload {
					source = "/tree"
				}
				if direction == download {
					target = filepath.Join(b.dir, "target")
				}
				s, err := b.tree(direction, source+"/.", target, func(tree *treeJob) {
					tree.From, tree.Options.Placement = from.host, transfer.PlaceDirect
				})
				if err != nil || s.Files != int64(len(files)) {
					t.Errorf("%+v, %v", s, err)
				}
				for name, data := range files {
					got, err := b.server.Files.ReadFile("/target/" + name)
					if direction == download {
						got, err = os.ReadFile(filepath.Join(target, name))
					}
					if err != nil || !bytes.Equal(got, data) {
						t.Errorf("%s: %d bytes are there, %v", name, len(got), err)
					}
				}
			})
		}
	}
}

// TestStreamOverAnOldFile: a stream cannot be copied again, so a host that does not cut the old
// file makes the copy fail.
func TestStreamOverAnOldFile(t *testing.T) {
	for name, intercept := range cutting {
		t.Run(name, func(t *testing.T) {
			b := newTreeBench(t, sftptest.Script{Intercept: intercept}, sftptest.LinkConfig{})
			b.host.Quirks = new(pool.Quirks)
			b.server.Files.WriteFile("/target", []byte("longer than new"))
			_, err := b.job(upload, "-", "/target", func(j *copyJob) {
				j.Reader, j.Options.Placement = strings.NewReader("new"), transfer.PlaceDirect
			})
			got := string(b.remote("/target"))
			if cuts := name == "as it should be" || name == "only whole files"; cuts &&
				(err != nil || got != "new") ||
				!cuts && (err == nil || !strings.Contains(err.Error(), "does not truncate")) {
				t.Errorf("it holds %q, %v", got, err)
			}
			// by now it is known
			_, err = b.job(upload, "-", "/target", func(j *copyJob) {
				j.Reader, j.Options.Placement = strings.NewReader("ne"), transfer.PlaceDirect
			})
			if got := string(b.remote("/target")); err != nil || got != "ne" {
				t.Errorf("again: it holds %q, %v", got, err)
			}
		})
	}
}

// TestTargetIsNotEmptiedFirst: until the new contents are there, nothing of the old file is lost
// but what they have replaced, and the order of requests is safe.
func TestTargetIsNotEmptiedFirst(t *testing.T) {
	b := newTreeBench(t, sftptest.Script{}, sftptest.LinkConfig{})
	b.server.Files.WriteFile("/target", bytes.Repeat([]byte("o"), 9))
	if _, err := b.job(upload, b.local("source", []byte("new")), "/target", func(j *copyJob) {
		j.Options.Placement, j.Options.Preserve = transfer.PlaceDirect, true
	}); err != nil {
		t.Fatal(err)
	}
	var did []string
	for _, r := range b.server.Requests(wire.TypeOpen, wire.TypeWrite, wire.TypeFsetstat,
		wire.TypeClose) {
		switch {
		case r.Type == wire.TypeOpen && r.Flags&wire.OpenTruncate != 0:
			did = append(did, "empty")
		case r.Type == wire.TypeFsetstat && r.Attrs.Has(wire.AttrSize):
			did = append(did, fmt.Sprint("cut to ", r.Attrs.Size))
		default:
			did = append(did, r.Type.String())
		}
	}
	if got, want := strings.Join(did, ", "), fmt.Sprint(wire.TypeOpen, ", ", wire.TypeWrite,
		", cut to 3, ",
		wire.TypeFsetstat, ", ", wire.TypeClose); got != want {
		t.Errorf("it did %s, want %s", got, want)
	}
	// What fails in place leaves what it has not replaced.
	b = newTreeBench(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
		if r.Type == wire.TypeWrite {
			return []sftptest.Action{sftptest.Refuse(wire.NoSpaceOnFilesystem, "")}
		}
		return nil
	}}, sftptest.LinkConfig{})
	b.server.Files.WriteFile("/target", []byte("old"))
	_, err := b.job(upload, b.local("source", []byte("ne")), "/target",
		func(j *copyJob) { j.Options.Placement = transfer.PlaceDirect })
	if got := string(b.remote("/target")); err == nil || got != "old" ||
		!strings.Contains(err.Error(), "in place") {
		t.Errorf("it holds %q, %v", got, err)
	}
}

// TestSparseOverAnOldFile: zeros are written where the old file has data.
func TestSparseOverAnOldFile(t *testing.T) {
	b := newBench(t, sftptest.Script{}, sftptest.LinkConfig{})
	data := make([]byte, 1<<20)
	copy(data[500e3:], "data")
	b.server.Files.WriteFile("/source", data)
	for _, direction := range []way{download, local} {
		target := b.local("target", bytes.Repeat([]byte("o"), 2<<20))
		source := "/source"
		if direction == local {
			source = b.local("source", data)
		}
		_, err := b.job(direction, source, target, func(j *copyJob) {
			j.Options.Placement, j.Options.Sparse = transfer.PlaceDirect, true
		})
		if err != nil || !bytes.Equal(b.read("target"), data) {
			t.Errorf("%v: %v", direction, err)
		}
	}
}

// TestStripedOverAnOldFile: several connections write over an old file, too, once what they write
// lies beyond its end and shows that the handles see each other's data.
func TestStripedOverAnOldFile(t *testing.T) {
	t.Parallel()
	const size = 48 << 20
	for _, old := range []int{1 << 20, size, size + 5} {
		t.Run(fmt.Sprintf("old file of %d bytes", old), func(t *testing.T) {
			striped(t, sftptest.Script{}, func(b *bench) {
				data := random(size)
				b.server.Files.WriteFile("/target", bytes.Repeat([]byte("o"), old))
				time.Sleep(time.Hour) // on a fake clock
				result, err := b.job(upload, b.local("source", data), "/target",
					func(j *copyJob) { j.Options.Placement = transfer.PlaceDirect })
				if err != nil || !bytes.Equal(b.remote("/target"), data) {
					b.t.Errorf("%+v, %v", result, err)
				}
				if old < size && result.Stripes < 2 {
					b.t.Errorf("%d further handles have taken part", result.Stripes)
				}
			})
		})
	}
}

// TestRetriedOverAnOldFile: a connection that is lost on the way costs nothing but time.
func TestRetriedOverAnOldFile(t *testing.T) {
	for _, direction := range []way{upload, download} {
		t.Run(direction.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lost := false
				link := sftptest.LinkConfig{RateBytesPerSec: 1 << 20, Window: 256 << 10}
				b := newBench(t, sftptest.Script{
					Intercept: func(r sftptest.Request) []sftptest.Action {
						if (r.Type == wire.TypeWrite || r.Type == wire.TypeRead) &&
							r.Offset > 1<<20 &&
							!lost {
							lost = true
							return []sftptest.Action{sftptest.Hangup()}
						}
						return nil
					}}, link)
				b.redials(link, nil)
				data, old := random(3<<20), bytes.Repeat([]byte("o"), 4<<20)
				source, target := b.local("source", data), "/target"
				b.server.Files.WriteFile("/target", old)
				if direction == download {
					b.server.Files.WriteFile("/source", data)
					source, target = "/source", b.local("target", old)
				}
				result, err := b.job(direction, source, target, func(j *copyJob) {
					j.Options.Placement = transfer.PlaceDirect
					j.Options.Retry = pool.Retry{Retries: 3, Backoff: func(int) time.Duration {
						return 0
					}}
				})
				if !lost || err != nil || !bytes.Equal(b.arrived(direction), data) {
					t.Errorf("%+v, %v", result, err)
				}
			})
		})
	}
}
