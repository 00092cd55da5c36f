package transfer_test

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// A server waits until somebody uses the other end of a named pipe, and then cannot read or write
// it. So one on a host is neither the source of a copy nor its target.
func TestNamedPipeOnAHost(t *testing.T) {
	for direction, names := range map[way][2]string{upload: {"", "/pipe"}, download: {"/pipe", ""}} {
		b := newBench(t, sftptest.Script{}, sftptest.LinkConfig{})
		b.server.Files.WriteFile("/pipe", nil)
		if err := b.server.Files.SetMode("/pipe", fs.ModeNamedPipe|0o644); err != nil {
			t.Fatal(err)
		}
		gate := new(sftptest.Gate)
		b.server.AddFaults(sftptest.Fault{On: wire.TypeOpen, Do: sftptest.Hold(gate)})
		source, target := names[0], names[1]
		if direction == upload {
			source = b.local("source", []byte("data"))
		} else {
			target = b.dir + "/target"
		}
		if _, err := b.job(direction, source, target); err == nil ||
			!strings.Contains(err.Error(), "named pipe") {
			t.Errorf("%v: %v", direction, err)
		}
		gate.Open()
	}
}
