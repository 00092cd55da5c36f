package usftp_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/sftptest"
)

// lazySink takes its time for every Write.
type lazySink time.Duration

func (d lazySink) Write(p []byte) (int, error) {
	time.Sleep(time.Duration(d))
	return len(p), nil
}

// Where the link is what takes long, all of the time is waited; where the writer is, next to none.
func TestWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := sftptest.NewServer(t, sftptest.Script{})
		server.Files.WriteFile("/file", make([]byte, 4<<20))
		const trip = 100 * time.Millisecond
		end := server.Dial(sftptest.LinkConfig{ToServer: trip / 2, ToClient: trip / 2})
		c, err := usftp.NewClientPipe(end, end)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.Ping(t.Context()); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("there is nobody to ask: %v", err)
		}
		for _, sink := range []io.Writer{io.Discard, lazySink(time.Second)} {
			f, err := c.OpenRead("/file")
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			if _, err := f.WriteTo(sink); err != nil {
				t.Fatal(err)
			}
			took, waited := time.Since(began), private.OfFile(f).Waited()
			if sink == io.Discard && waited != took {
				t.Errorf("waited %v of %v", waited, took)
			}
			if sink != io.Discard && (waited > 5*trip || took < 16*time.Second) {
				t.Errorf("a slow writer: waited %v of %v", waited, took)
			}
			f.Close()
		}
	})
}

func TestPing(t *testing.T) {
	server := sftptest.NewServer(t, sftptest.Script{})
	end := server.Dial(sftptest.LinkConfig{})
	dead := errors.New("no answer")
	var asked []error
	c, err := usftp.NewClientPipe(end, end, usftp.WithKeepalive(func(ctx context.Context) error {
		asked = append(asked, ctx.Err())
		return dead
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Ping(t.Context()); err != dead || len(asked) != 1 || asked[0] != nil {
		t.Errorf("%v, asked %v", err, asked)
	}
}
