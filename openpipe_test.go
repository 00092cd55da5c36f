package usftp_test

import (
	"io/fs"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// Servers wait in OPEN until somebody writes to a named pipe, and then cannot read it. The
// attributes, which come first, say what it is.
func TestOpenReadOfANamedPipe(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftptest.Script{}, 0)
		r.server.Files.WriteFile("/pipe", nil)
		ok(t, r.server.Files.SetMode("/pipe", fs.ModeNamedPipe|0o644))
		gate := new(sftptest.Gate)
		r.server.AddFaults(sftptest.Fault{On: wire.TypeOpen, Do: sftptest.Hold(gate)})
		f, err := r.OpenRead("/pipe")
		if err == nil || !strings.Contains(err.Error(), "named pipe") {
			t.Errorf("%v, %v", f, err)
		}
		gate.Open()
		synctest.Wait()
		if open := r.server.OpenHandles(); open != 0 { // the OPEN was answered after all
			t.Errorf("%d handles are open", open)
		}
	})
}
