//go:build linux || darwin

package sftpfs

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// A file that is opened to be written, and then cannot be used, or that lacks data which was
// written to it, is abandoned: a CLOSE would tell the host that it is whole.
func TestAbandonedInAMount(t *testing.T) {
	for _, test := range []struct {
		name             string
		fault            sftptest.Fault
		closed, abandons int
	}{
		{"opening fails half way", sftptest.Fault{On: wire.TypeStat, Path: "/file",
			Do: sftptest.Refuse(wire.Failure, "no")}, 0, 1},
		{"data is lost", sftptest.Fault{On: wire.TypeWrite, Do: sftptest.Refuse(wire.Failure, "no")},
			0, 1},
		{"all is well", sftptest.Fault{On: wire.TypeSymlink}, 1, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				closed, abandoned := 0, 0
				s := mountScripted(t, 0, sftptest.Script{
					Extensions: append(sftptest.OpenSSHExtensions(),
						wire.ExtensionPair{Name: wire.ExtAbandon, Data: "1"}),
					Intercept: func(r sftptest.Request) []sftptest.Action {
						if r.Path == "/file" && r.Type == wire.TypeClose {
							closed++
						} else if r.Path == "/file" && r.Extension == wire.ExtAbandon {
							abandoned++
						}
						return nil
					}})
				s.server.Files.WriteFile("/file", []byte("old"))
				header := s.lookup(t, root(), "file")
				s.server.AddFaults(test.fault)
				var out fuse.OpenOut
				status := s.Open(nil, &fuse.OpenIn{InHeader: *header,
					Flags: uint32(os.O_WRONLY | os.O_TRUNC)}, &out)
				if status == fuse.OK {
					o := &opened{s, t, *header, out.Fh}
					o.write(0, "data")
					s.Flush(nil, &fuse.FlushIn{InHeader: *header, Fh: out.Fh})
					s.Release(nil, &fuse.ReleaseIn{InHeader: *header, Fh: out.Fh})
				}
				synctest.Wait()
				if closed != test.closed || abandoned != test.abandons {
					t.Errorf("%v: it was closed %d times and abandoned %d times", status, closed,
						abandoned)
				}
			})
		})
	}
}

// The same holds on a host that works in order, where a small new file is closed along with its
// last data, if some of that was refused before.
func TestAbandonedSmallFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{version: openSSH, server: sftptest.NewServer(t, sftptest.Script{
			Extensions: append(sftptest.OpenSSHExtensions(),
				wire.ExtensionPair{Name: wire.ExtAbandon, Data: "1"})})}
		s.mount(t, 0)
		s.server.AddFaults(sftptest.Fault{On: wire.TypeWrite, Times: 1,
			Do: sftptest.Refuse(wire.Failure, "no")})
		o := s.create(t, "file")
		o.write(0, "data")
		time.Sleep(2 * idleTime) // after which it is sent
		if status := o.flush(); status == fuse.OK {
			t.Error("close says that everything has arrived")
		}
		s.Release(nil, &fuse.ReleaseIn{InHeader: o.header, Fh: o.fh})
		synctest.Wait()
		if n := len(s.server.Requests(wire.TypeClose)); n != 0 {
			t.Errorf("it was closed %d times", n)
		}
	})
}
