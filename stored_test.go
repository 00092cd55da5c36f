package usftp_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// makes are ways to write a new file.
var makes = map[string]func(c *usftp.Client, data []byte) error{
	"WriteFile": func(c *usftp.Client, data []byte) error { return c.WriteFile("/f", data, 0o644) },
	"Write": func(c *usftp.Client, data []byte) error {
		return created(c, func(f *usftp.File) error {
			_, err := f.Write(data)
			return err
		})
	},
	"io.Copy": func(c *usftp.Client, data []byte) error {
		return created(c, func(f *usftp.File) error {
			_, err := io.Copy(f, bytes.NewReader(data))
			return err
		})
	},
	"Writer": func(c *usftp.Client, data []byte) error {
		return created(c, func(f *usftp.File) error {
			_, err := f.Writer().Write(data)
			return err
		})
	},
	"Async": func(c *usftp.Client, data []byte) error {
		return created(c, func(f *usftp.File) error {
			_, err := f.Async().WriteAt(data, 0).Wait()
			return err
		})
	},
}

// created makes a file, and returns the error of closing it.
func created(c *usftp.Client, write func(f *usftp.File) error) error {
	f, err := c.Create("/f")
	if err == nil {
		if err = write(f); err == nil {
			err = f.Close()
		}
	}
	return err
}

// TestCloseOfWriteThatIsOnlyClaimed: a host acknowledges the last WRITE of a file although the disk
// had no room for it. The program that makes the file learns that at the latest when it closes it.
func TestCloseOfWriteThatIsOnlyClaimed(t *testing.T) {
	const rtt = 100 * time.Millisecond
	for way, make := range makes {
		for _, size := range []int{5000, 300_000} {
			bubble(t, func(t *testing.T) {
				lost := []sftptest.Fault{{On: wire.TypeWrite, From: uint64(size) - 1, To: 1 << 40,
					Do: sftptest.Refuse(wire.OK, "")}}
				full, good := newRig(t, sftptest.Script{Faults: lost}, rtt), newRig(t, sftptest.Script{}, rtt)
				data := bytes.Repeat([]byte("x"), size)
				if err := make(full.Client, data); !errors.Is(err, io.ErrShortWrite) {
					t.Errorf("%s, %d bytes: %v", way, size, err)
				}
				if n := trips(rtt, func() { ok(t, make(good.Client, data)) }); n > 3 {
					t.Errorf("%s, %d bytes: %v round trips", way, size, n)
				}
				if asked := good.count.Counts().PacketsSent[wire.TypeFstat]; asked != 1 {
					t.Errorf("%s, %d bytes: asked %d times", way, size, asked)
				}
				known := newRig(t, sftptest.Script{Faults: lost}, rtt, usftp.WithServerVersion(openSSH))
				ok(t, make(known.Client, data))
				if asked := known.count.Counts().PacketsSent[wire.TypeFstat]; asked != 0 {
					t.Errorf("%s, %d bytes: OpenSSH's server was asked %d times", way, size, asked)
				}
			})
		}
	}
}

// TestCloseOfFileThatIsShort: no error comes for a file that its own program has cut while it wrote
// it, or to which nothing was written where it was to go on.
func TestCloseOfFileThatIsShort(t *testing.T) {
	for _, then := range []func(f *usftp.File) error{
		func(f *usftp.File) error { return f.Truncate(3) },
		func(f *usftp.File) error { return f.Client().Truncate("/f", 3) },
		func(f *usftp.File) error {
			_, err := f.Seek(1000, io.SeekStart)
			if err == nil {
				_, err = io.Copy(f, strings.NewReader(""))
			}
			return err
		},
	} {
		r := newRig(t, sftptest.Script{}, 0)
		ok(t, created(r.Client, func(f *usftp.File) error {
			if _, err := f.Write([]byte("0123456789")); err != nil {
				return err
			}
			return then(f)
		}))
	}
}
