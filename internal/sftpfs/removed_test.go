//go:build linux || darwin

package sftpfs

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// A file that is closed while the host gives it the hidden name of a removed one leaves nothing
// behind: the kernel closes files in the background, so a program can close one and then remove it.
func TestClosedWhileRemoved(t *testing.T) {
	for name, want := range map[string][]string{
		"remove an open file":  {"/dir/", "/spare"},
		"replace an open file": {"/dir/", "/file"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := mountFile(t)
				for _, kind := range []wire.Type{wire.TypeRename, wire.TypeExtended} {
					o.server.AddFaults(sftptest.Fault{On: kind, Do: sftptest.Delay(time.Second)})
				}
				done := make(chan fuse.Status)
				go func() {
					status := calls[name](o)
					o.Forget(o.header.NodeId, 1) // as the kernel does at once
					done <- status
				}()
				time.Sleep(time.Second / 2)
				o.Release(nil, &fuse.ReleaseIn{InHeader: o.header, Fh: o.fh})
				if status := <-done; status != fuse.OK {
					t.Error(status)
				}
				time.Sleep(time.Minute)
				if names := o.server.Files.List(); !slices.Equal(names, want) {
					t.Errorf("the host has %q, want %q", names, want)
				}
			})
		})
	}
}
