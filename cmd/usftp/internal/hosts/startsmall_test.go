package hosts

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// TestStartSmall: an upload over a short link starts with little in flight, and one over a long
// link with as much as the link holds.
func TestStartSmall(t *testing.T) {
	const window = 2 << 20
	for name, test := range map[string]struct {
		trip        time.Duration
		least, most int
	}{
		"short": {shortTrip / 2, 1, 256 << 10},
		"long":  {50 * time.Millisecond, window / 2, window},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gate := new(sftptest.Gate)
				server := sftptest.NewServer(t, sftptest.Script{})
				server.AddFaults(sftptest.Fault{On: wire.TypeWrite, Do: sftptest.Hold(gate)})
				stream := server.Dial(sftptest.LinkConfig{})
				client, err := usftp.NewClientPipe(stream, stream, usftp.WithChannelWindow(window),
					usftp.WithKeepalive(func(context.Context) error {
						time.Sleep(test.trip) // of the bubble's clock
						return nil
					}))
				if err != nil {
					t.Fatal(err)
				}
				defer client.Close()
				startSmall(context.Background(), client)
				f, err := client.Create("/file")
				if err != nil {
					t.Fatal(err)
				}
				done := make(chan error, 1)
				go func() {
					_, err := f.ReadFrom(bytes.NewReader(make([]byte, 4*window)))
					done <- err
				}()
				synctest.Wait()
				sent := 0
				for _, r := range server.Requests(wire.TypeWrite) {
					sent += int(r.Length)
				}
				if sent < test.least || sent > test.most {
					t.Errorf("%d bytes are in flight, want %d to %d", sent, test.least, test.most)
				}
				gate.Open()
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
