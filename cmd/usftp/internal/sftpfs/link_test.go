//go:build linux || darwin

package sftpfs

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// look is how much later than it happened a sign of life may be noticed.
const look = scriptedTimeout / 16

// mountFile mounts a directory with two files, one of which is open, and an empty directory.
func mountFile(t *testing.T) *opened { return mountFileOf(t, sftptest.Script{}) }

func mountFileOf(t *testing.T, script sftptest.Script) *opened {
	s := mountScripted(t, 0, script)
	s.server.Files.WriteFile("/file", []byte("contents"))
	s.server.Files.WriteFile("/spare", nil)
	s.server.Files.Mkdir("/dir")
	o := s.open(t, "file")
	if data, status := o.read(8); status != fuse.OK || data != "contents" {
		t.Fatalf("%q, %v", data, status)
	}
	return o
}

// calls are what the kernel asks for, of the file that is open or in the root. Some of them ask the
// host several times.
var calls = map[string]func(o *opened) fuse.Status{
	"lookup": func(o *opened) fuse.Status {
		return o.Lookup(nil, root(), "other", new(fuse.EntryOut))
	},
	"getattr": func(o *opened) fuse.Status {
		_, status := o.getAttr()
		return status
	},
	"truncate": func(o *opened) fuse.Status {
		return o.setAttr(fuse.SetAttrInCommon{Valid: fuse.FATTR_SIZE, Size: 3})
	},
	"open": func(o *opened) fuse.Status {
		return o.Open(nil, &fuse.OpenIn{InHeader: o.header}, new(fuse.OpenOut))
	},
	"open after a write": func(o *opened) fuse.Status {
		in := fuse.WriteIn{InHeader: o.header, Fh: o.fh, Size: 4}
		o.Write(nil, &in, []byte("more")) // fails after one that could not be sent
		return o.Open(nil, &fuse.OpenIn{InHeader: o.header}, new(fuse.OpenOut))
	},
	"create": func(o *opened) fuse.Status {
		return o.Create(nil, &fuse.CreateIn{InHeader: *root()}, "other", new(fuse.CreateOut))
	},
	"read": func(o *opened) fuse.Status {
		_, status := o.read(8)
		return status
	},
	"fsync": func(o *opened) fuse.Status {
		o.write(0, "more")
		return o.sync()
	},
	"close": func(o *opened) fuse.Status {
		o.write(0, "more")
		return o.Flush(nil, &fuse.FlushIn{InHeader: o.header, Fh: o.fh})
	},
	"write beyond the buffer": func(o *opened) (status fuse.Status) {
		block := bytes.Repeat([]byte("x"), 256<<10)
		for off := 0; off <= 1<<20 && status == fuse.OK; off += len(block) {
			in := fuse.WriteIn{InHeader: o.header, Fh: o.fh, Offset: uint64(off),
				Size: uint32(len(block))}
			_, status = o.Write(nil, &in, block)
		}
		return status
	},
	"list": func(o *opened) fuse.Status {
		var dir fuse.OpenOut
		if status := o.OpenDir(nil, &fuse.OpenIn{InHeader: *root()}, &dir); status != fuse.OK {
			return status
		}
		defer o.ReleaseDir(&fuse.ReleaseIn{InHeader: *root(), Fh: dir.Fh})
		return o.ReadDir(nil, &fuse.ReadIn{InHeader: *root(), Fh: dir.Fh, Size: 4096},
			fuse.NewDirEntryList(make([]byte, 4096), 0))
	},
	"mkdir": func(o *opened) fuse.Status {
		return o.Mkdir(nil, &fuse.MkdirIn{InHeader: *root()}, "other", new(fuse.EntryOut))
	},
	"rmdir": func(o *opened) fuse.Status { return o.Rmdir(nil, root(), "dir") },
	"symlink": func(o *opened) fuse.Status {
		return o.Symlink(nil, root(), "file", "other", new(fuse.EntryOut))
	},
	"link": func(o *opened) fuse.Status {
		in := fuse.LinkIn{InHeader: *root(), Oldnodeid: o.header.NodeId}
		return o.Link(nil, &in, "other", new(fuse.EntryOut))
	},
	"remove an open file": func(o *opened) fuse.Status { return o.Unlink(nil, root(), "file") },
	"replace an open file": func(o *opened) fuse.Status {
		in := fuse.RenameIn{InHeader: *root(), Newdir: fuse.FUSE_ROOT_ID}
		return o.Rename(nil, &in, "spare", "file")
	},
	"statfs": func(o *opened) fuse.Status { return o.StatFs(nil, root(), new(fuse.StatfsOut)) },
}

func root() *fuse.InHeader { return &fuse.InHeader{NodeId: fuse.FUSE_ROOT_ID} }

// No call waits for longer than the timeout when nothing comes from the host any more, and each
// works again when the host is back.
func TestSilentHost(t *testing.T) {
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := mountFile(t)
				o.silence()
				time.Sleep(time.Hour) // nobody notices
				began := time.Now()
				status := call(o)
				took := time.Since(began)
				if status != fuse.EIO || took < scriptedTimeout || took > scriptedTimeout+look {
					t.Errorf("%v after %v", status, took)
				}
				o.restore()
				time.Sleep(time.Minute)
				began = time.Now()
				status = call(o)
				if took := time.Since(began); status != fuse.OK || took > time.Second {
					t.Errorf("when the host is back: %v after %v", status, took)
				}
			})
		})
	}
}

// A slow host that falls silent during a call is waited for as long as one that was silent before:
// the time counts from its last sign of life.
func TestHostFallsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := mountFile(t)
		o.server.AddFaults(sftptest.Fault{On: wire.TypeMkdir, Do: sftptest.Delay(24 * time.Hour)})
		const working = 10 * scriptedTimeout
		time.AfterFunc(working, o.silence)
		began := time.Now()
		status := calls["mkdir"](o)
		took := time.Since(began) - working
		// A host that has nothing to say is asked for a sign of life at times.
		if status != fuse.EIO || took < scriptedTimeout*3/4 || took > scriptedTimeout+look {
			t.Errorf("%v, %v after the last sign of life", status, took)
		}
	})
}

// A host that falls silent soon after a call began, or whose connection is cut again and again, is
// not waited for longer than one that was silent before.
func TestTimeoutFromTheStart(t *testing.T) {
	for what, breaks := range map[string]func(o *opened){
		"falls silent": func(o *opened) { time.AfterFunc(scriptedTimeout/3, o.silence) },
		"is cut": func(o *opened) {
			for i := range 30 {
				time.AfterFunc(time.Duration(3*i+1)*time.Second, o.cut)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := mountFile(t)
				o.server.AddFaults(sftptest.Fault{On: wire.TypeLstat,
					Do: sftptest.Delay(24 * time.Hour)})
				breaks(o)
				began := time.Now()
				_, status := o.getAttr()
				if took := time.Since(began); status != fuse.EIO || took != scriptedTimeout {
					t.Errorf("%v after %v", status, took)
				}
			})
		})
	}
}

// A host that takes its time is not cut off as long as it is alive.
func TestSlowHost(t *testing.T) {
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := mountFile(t)
				before := o.server.Streams()
				slow := scriptedTimeout * 3 / 2
				for _, kind := range []wire.Type{wire.TypeOpen, wire.TypeLstat, wire.TypeStat,
					wire.TypeOpendir, wire.TypeMkdir, wire.TypeRmdir, wire.TypeSymlink,
					wire.TypeRemove, wire.TypeRename, wire.TypeExtended, wire.TypeFsetstat,
					wire.TypeSetstat} {
					o.server.AddFaults(sftptest.Fault{On: kind, Do: sftptest.Delay(slow)})
				}
				switch status := call(o); {
				case name == "lookup" && status == fuse.ENOENT:
				case status != fuse.OK:
					t.Error(status)
				}
				if n := o.server.Streams(); n != before {
					t.Errorf("%d connections, %d before", n, before)
				}
			})
		})
	}
}

// A host that lives, but never answers a question, is asked once more over another connection, and
// has the timeout there.
func TestUnansweredQuestion(t *testing.T) {
	const stall = scriptedTimeout / 2
	for name, test := range map[string]struct {
		request wire.Type
		times   time.Duration
	}{
		"getattr": {wire.TypeLstat, 10},
		"lookup":  {wire.TypeLstat, 10},
		"statfs":  {wire.TypeExtended, 10},
		"list":    {wire.TypeReaddir, 60},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := mountFile(t)
				o.server.AddFaults(sftptest.Fault{On: test.request, Do: sftptest.Delay(1000 * time.Hour)})
				began := time.Now()
				status := calls[name](o)
				took := time.Since(began) - test.times*stall
				if status != fuse.EIO || took < 0 || took > scriptedTimeout+stall {
					t.Errorf("%v %v after the connection should have been given up", status, took)
				}
			})
		})
	}
}

// A call for which the host ends one session after the other, but not the connection, fails soon,
// and does not keep others from working.
func TestFatalCall(t *testing.T) {
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var fatal atomic.Bool
				o := mountFileOf(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
					if fatal.Load() && r.Type != wire.TypeInit && r.Extension != wire.ExtLimits {
						return []sftptest.Action{sftptest.Hangup()}
					}
					return nil
				}})
				fatal.Store(true)
				before := o.server.Streams()
				began := time.Now()
				status := call(o)
				if took := time.Since(began); status != fuse.EIO || took > 10*time.Second {
					t.Errorf("%v after %v", status, took)
				}
				if n := o.server.Streams() - before; n > 2*mostFatal {
					t.Errorf("%d sessions", n)
				}
				fatal.Store(false)
				time.Sleep(time.Minute)
				if status := call(o); status != fuse.OK {
					t.Errorf("when the host is well again: %v", status)
				}
			})
		})
	}
}

// What others ask is answered, although the host ends sessions in which it has not come to it.
func TestOthersThanTheFatalCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := mountFile(t)
		busy := sftptest.Call("work", func(sftptest.Request) { time.Sleep(time.Second) })
		o.server.AddFaults(sftptest.Fault{On: wire.TypeReaddir, Do: busy},
			sftptest.Fault{On: wire.TypeReaddir, Do: sftptest.Hangup()})
		var fatal sync.WaitGroup
		fatal.Go(func() {
			if status := calls["list"](o); status != fuse.EIO {
				t.Errorf("the list: %v", status)
			}
		})
		time.Sleep(time.Second / 2)
		began := time.Now()
		if data, status := o.read(8); status != fuse.OK || data != "contents" {
			t.Errorf("%q, %v", data, status)
		}
		if took := time.Since(began); took < time.Second/2 {
			t.Errorf("it was answered after %v, before a session ended", took)
		}
		fatal.Wait()
	})
}

// A host that can be reached again and again, but never answers, does not keep a call for ever.
func TestComesAndGoes(t *testing.T) {
	for name, request := range map[string]wire.Type{"getattr": wire.TypeLstat,
		"fsync": wire.TypeWrite, "close": wire.TypeWrite, "append": wire.TypeWrite,
		"write beyond the buffer": wire.TypeWrite, "read": wire.TypeRead,
		"truncate": wire.TypeFsetstat} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := mountFile(t)
				call := calls[name]
				if name == "append" {
					o = o.openFlags(t, fuse.FUSE_ROOT_ID, "file", os.O_WRONLY|os.O_APPEND)
					call = calls["fsync"]
				}
				cut := sftptest.Call("cut", func(sftptest.Request) { o.cut() })
				o.server.AddFaults(sftptest.Fault{On: request, Do: cut},
					sftptest.Fault{On: request, Do: sftptest.Hangup()})
				began := time.Now()
				status := call(o)
				if took := time.Since(began); status != fuse.EIO || took < scriptedTimeout ||
					took > scriptedTimeout+look {
					t.Errorf("%v after %v", status, took)
				}
				o.Flush(nil, &fuse.FlushIn{InHeader: o.header, Fh: o.fh}) // or it fails at the end
			})
		})
	}
}

// Data whose writing has failed because the host was silent is kept in a rescue file, and is not
// written later.
func TestSilentHostRescue(t *testing.T) {
	for _, name := range []string{"fsync", "close", "open after a write"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := mountFile(t)
				o.silence()
				if status := calls[name](o); status != fuse.EIO {
					t.Error(status)
				}
				o.restore()
				time.Sleep(time.Hour)
				if status := o.sync(); status != fuse.OK && status != fuse.EIO { // told once more
					t.Error(status)
				}
				if status := o.sync(); status != fuse.OK {
					t.Error(status)
				}
				if data, err := o.server.Files.ReadFile("/file"); string(data) != "contents" {
					t.Errorf("the host has %q, %v", data, err)
				}
				kept, err := filepath.Glob(filepath.Join(o.rescues, "*.ranges"))
				if err != nil || len(kept) != 1 {
					t.Fatalf("%q, %v", kept, err)
				}
				data, err := os.ReadFile(strings.TrimSuffix(kept[0], ".ranges"))
				if err != nil || string(data) != "more" {
					t.Errorf("kept: %q, %v", data, err)
				}
			})
		})
	}
}

// Data that was given up is not written later, even if it is already waiting for the connection in
// the background.
func TestGivenUpIsNotSent(t *testing.T) {
	for name, flags := range map[string]int{"written": os.O_RDWR,
		"appended": os.O_WRONLY | os.O_APPEND} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := mountFile(t).openFlags(t, fuse.FUSE_ROOT_ID, "file", flags)
				o.silence()
				o.cut()
				for range 2 { // the second waits for the first to give up
					o.write(0, "more")
					time.Sleep(5 * time.Second)
				}
				if status := o.sync(); status != fuse.EIO {
					t.Error(status)
				}
				o.restore()
				time.Sleep(time.Minute)
				if data, err := o.server.Files.ReadFile("/file"); string(data) != "contents" {
					t.Errorf("the host has %q, %v", data, err)
				}
			})
		})
	}
}
