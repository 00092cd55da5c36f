package usftp_test

import (
	"bytes"
	"testing"
	"testing/synctest"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// TestStartSmall: until the first answer an upload has a channel's window in flight, or a single
// request if it is told to start small.
func TestStartSmall(t *testing.T) {
	for name, test := range map[string]struct {
		small bool
		most  int
	}{"window": {false, 2 << 20}, "small": {true, 261120}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gate := new(sftptest.Gate)
				server := sftptest.NewServer(t, sftptest.Script{})
				server.AddFaults(sftptest.Fault{On: wire.TypeWrite, Do: sftptest.Hold(gate)})
				client := clientOf(t, server.Dial(sftptest.LinkConfig{}), usftp.WithChannelWindow(2<<20))
				if test.small {
					private.OfClient(client).StartSmall()
				}
				f, err := client.Create("/file")
				if err != nil {
					t.Fatal(err)
				}
				data := make([]byte, 8<<20)
				done := make(chan error, 1)
				go func() {
					_, err := f.ReadFrom(bytes.NewReader(data))
					done <- err
				}()
				synctest.Wait()
				sent := 0
				for _, r := range server.Requests(wire.TypeWrite) {
					sent += int(r.Length)
				}
				if sent > test.most || sent <= test.most/2 {
					t.Errorf("%d bytes are in flight, want at most %d", sent, test.most)
				}
				gate.Open()
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
