//go:build unix

package endpoint_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/endpoint/endpointtest"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// A lossy host loses its first connection at one request, and can be reached again.
type lossy struct {
	*testing.T
	endpoint.Root
	place  *endpoint.Host
	disk   endpointtest.Disk
	server *sftptest.Scripted
}

// is checks what is on the disk.
func (l *lossy) is(pairs ...string) {
	l.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if got := l.disk.State(pairs[i]); got != pairs[i+1] {
			l.Errorf("%q is %q on the disk, want %q", pairs[i], got, pairs[i+1])
		}
	}
}

func (l *lossy) ok(err error) {
	l.Helper()
	if err != nil {
		l.Error(err)
	}
}

// Each verb's connection is lost at each of its requests, before it is carried out and after, and
// the outcome is the one that the verb promises.
func TestLost(t *testing.T) {
	stamp := time.Unix(1_000_000_000, 0)
	verbs := map[string]func(l *lossy){
		"Lstat": func(l *lossy) {
			i, err := l.Lstat("file")
			if l.ok(err); i.Size != 4 {
				l.Errorf("it has %d bytes", i.Size)
			}
			_, err = l.Lstat("missing")
			l.refused(err, fs.ErrNotExist)
		},
		"Stat, RealPath, ReadLink, Mark": func(l *lossy) {
			_, err := l.place.Stat("/top/link")
			l.ok(err)
			real, err := l.place.RealPath("/top/dirlink")
			l.ok(err)
			text, err := l.ReadLink("link")
			l.ok(err)
			mark, err := l.place.Mark("/top/dir")
			l.ok(err)
			again, err := l.place.Mark("/top/dir")
			l.ok(err)
			if real != "/top/dir" || !strings.HasSuffix(text, "file") || mark != again {
				l.Errorf("%q, %q, %q, %q", real, text, mark, again)
			}
		},
		"List": func(l *lossy) {
			var names []string
			l.ok(l.List("many", nil, nil, func(name string, i endpoint.Info, err error) bool {
				l.ok(err)
				names = append(names, name)
				return true
			}))
			l.complete(names)
		},
		"List again": func(l *lossy) {
			var names []string
			l.ok(l.List("many", nil, func() { names = nil },
				func(name string, i endpoint.Info, err error) bool {
					l.ok(err)
					names = append(names, name)
					return true
				}))
			l.complete(names)
		},
		"ReadSmall": func(l *lossy) {
			data, was, err := l.ReadSmall("file", 10)
			if l.ok(err); string(data) != "data" || was.Size != 4 {
				l.Errorf("read %q of %d bytes", data, was.Size)
			}
		},
		"WriteSmall": func(l *lossy) {
			l.ok(l.WriteSmall("file", []byte("DATA"), nil))
			l.is("file", "= DATA")
		},
		"WriteSmall new": func(l *lossy) {
			if err := l.WriteSmall("new", []byte("new"), endpoint.Create); err != nil {
				l.refused(err, endpoint.ErrRepeated)
				if state := l.disk.State("new"); state != "= new" && state != "= " {
					l.Errorf("there is %q", state)
				}
				return
			}
			l.is("new", "= new")
		},
		"WriteSmall exists": func(l *lossy) {
			if l.WriteSmall("file", []byte("new"), endpoint.Create) == nil {
				l.Error("it is made")
			}
			l.is("file", "= data")
		},
		"Remove": func(l *lossy) {
			l.ok(l.Remove("file", false))
			l.ok(l.Remove("dir", true))
			l.is("file", "", "dir", "")
		},
		"Guard": func(l *lossy) {
			l.Guard(func() error { return endpoint.ErrRepeated })
			if err := l.Remove("file", false); err != nil {
				l.refused(err, endpoint.ErrRepeated)
			} else {
				l.is("file", "")
			}
			if again := l.server.Requests(wire.TypeRemove); len(again) > 1 {
				l.Errorf("there were %v", again)
			}
		},
		"Mkdir": func(l *lossy) {
			made, err := l.Mkdir("new", 0o755)
			if l.ok(err); !made {
				l.Error("it is not made")
			}
			l.is("new", "dir")
		},
		"Mkdir exists": func(l *lossy) {
			made, err := l.Mkdir("many", 0o755)
			if l.ok(err); made {
				l.Error("it is made")
			}
			_, err = l.Mkdir("file", 0o755)
			l.refused(err, endpoint.ErrNotDirectory)
			_, err = l.Mkdir("missing/new", 0o755)
			l.refused(err, fs.ErrNotExist)
		},
		"Symlink": func(l *lossy) {
			l.ok(l.Symlink("to", "new"))
			l.is("new", "-> to")
		},
		"Symlink exists": func(l *lossy) {
			l.refused(l.Symlink("to", "link"), fs.ErrExist)
			l.is("link", "-> file")
		},
		"ReplaceByLink": func(l *lossy) {
			l.ok(l.ReplaceByLink("to", "file", "t", "a"))
			l.is("file", "-> to", "t", "", "a", "")
		},
		"ReplaceByLink of a link": func(l *lossy) {
			l.ok(l.ReplaceByLink("to", "link", "t", "a"))
			l.is("link", "-> to", "t", "", "a", "", "file", "= data")
		},
		"Rename": func(l *lossy) {
			l.ok(l.Rename("file", "new"))
			l.ok(l.Rename("many", "renamed"))
			l.is("file", "", "new", "= data", "many", "", "renamed/n0", "= ")
		},
		"Rename exists": func(l *lossy) {
			l.refused(l.Rename("file", "dir"), fs.ErrExist)
			l.refused(l.Rename("missing", "new"), fs.ErrNotExist)
			l.is("file", "= data", "dir", "dir", "new", "")
		},
		"Link": func(l *lossy) {
			l.ok(l.Link("file", "new"))
			l.is("file", "= data", "new", "= data")
			l.refused(l.Link("file", "dir"), fs.ErrExist)
		},
		"SetAttrs": func(l *lossy) {
			for name, kind := range map[string]fs.FileMode{"file": 0, "dir": fs.ModeDir} {
				unset, err := l.SetAttrs(name, kind, true, usftp.NewAttrs{SetTimes: true,
					Atime: stamp, Mtime: stamp, SetMode: true, Mode: 0o750})
				l.ok(err)
				if mode, mtime := l.disk.Attrs(name); mode != 0o750 || !mtime.Equal(stamp) ||
					unset != (endpoint.Unset{}) {
					l.Errorf("%s has %v of %v, %+v", name, mode, mtime, unset)
				}
			}
		},
		"InPlace": func(l *lossy) {
			l.ok(l.InPlace("dir"))
			l.refused(l.InPlace("dirlink"), endpoint.ErrLinkInWay)
		},
		"LookDir, Unmoved": func(l *lossy) {
			i, err := l.LookDir("dir")
			if l.ok(err); !i.Mode.IsDir() {
				l.Errorf("it is %v", i.Mode)
			}
			l.ok(l.Unmoved("."))
			l.ok(l.Unmoved("dir"))
			_, err = l.LookDir("dirlink")
			l.refused(err, endpoint.ErrLinkInWay)
			l.refused(l.Unmoved("dirlink"), endpoint.ErrLinkInWay)
		},
	}
	for server, c := range map[string]struct {
		script  sftptest.Script
		version string
	}{
		"OpenSSH":    {version: openSSH},
		"other":      {script: sftptest.Script{ReaddirNames: 3}},
		"rich codes": {script: sftptest.Script{RichCodes: true, BareListings: true}},
		"no extensions": {script: sftptest.Script{Extensions: without(wire.ExtPosixRename,
			wire.ExtLsetstat), FollowLinks: true}},
		"no LSTAT": {script: sftptest.Script{Extensions: without(wire.ExtPosixRename),
			Refuse: []wire.Type{wire.TypeLstat}}},
	} {
		for when, do := range map[string]sftptest.Action{"before": sftptest.Hangup(),
			"after": sftptest.Truncate(0), "within the reply": sftptest.Truncate(7)} {
			for name, verb := range verbs {
				t.Run(fmt.Sprintf("%s/%s/%s", server, when, name), func(t *testing.T) {
					for at := 0; ; at++ {
						l := newLossy(t, c.script, c.version)
						l.server.ForgetRequests()
						l.server.AddFaults(sftptest.Fault{Skip: at, Times: 1, Do: do})
						verb(l)
						if t.Failed() {
							t.Fatalf("lost at request %d of %v", at, l.server.Requests())
						}
						requests := l.server.Requests()
						// The last may be one that the first stream's server read late.
						if at == 0 && !slices.ContainsFunc(requests, onNewStream) {
							t.Fatalf("nothing is lost of %v", requests)
						}
						if len(requests) <= at {
							return // there was no such request
						}
					}
				})
			}
		}
	}
}

func onNewStream(r sftptest.Request) bool { return r.Stream > 1 }

func (l *lossy) refused(err, is error) {
	l.Helper()
	if !errors.Is(err, is) {
		l.Errorf("%v, want %v", err, is)
	}
}

// complete checks the names in the directory many.
func (l *lossy) complete(names []string) {
	l.Helper()
	if slices.Sort(names); !slices.Equal(names, manyNames) {
		l.Errorf("it lists %q", names)
	}
}

var manyNames = strings.Fields("n0 n1 n2 n3 n4 n5 n6 n7")

func newLossy(t *testing.T, script sftptest.Script, version string) *lossy {
	t.Helper()
	server := sftptest.NewServer(t, script)
	disk := endpointtest.Memory(t, server.Files, "/top")
	disk.Mkdir("dir")
	disk.Write("file", "data")
	disk.Symlink("file", "link")
	disk.Symlink("dir", "dirlink")
	for _, name := range manyNames {
		disk.Write("many/"+name, "")
	}
	dial := func() *usftp.Client {
		end := server.Dial(sftptest.LinkConfig{})
		client := newClient(t, end, end, version)
		t.Cleanup(func() { client.Close() })
		return client
	}
	var redial func(context.Context) (pool.Host, error)
	redial = func(context.Context) (pool.Host, error) {
		return pool.Host{Client: dial(), Name: "far", Redial: redial}, nil
	}
	host, _ := newHost(t, pool.Host{Client: dial(), Redial: redial}, pool.Retry{Retries: 2,
		Backoff: func(int) time.Duration { return 0 }})
	if _, err := host.Stat("/top"); err != nil { // what follows the login has been asked for
		t.Fatal(err)
	}
	root, err := host.Below("/top")
	if err != nil {
		t.Fatal(err)
	}
	return &lossy{t, root, host, disk, server}
}
