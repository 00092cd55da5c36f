package usftp_test

import (
	"bytes"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// A small file costs one round trip besides its OPEN on a server in order, and the requests arrive
// in the order that keeps the file right. The bubble's clock shows which requests were sent
// together.
func TestSmallFiles(t *testing.T) { bubble(t, smallFiles) }

func smallFiles(t *testing.T) {
	for _, version := range []string{"SSH-2.0-OpenSSH_9.6", "SSH-2.0-Go"} {
		server := sftptest.NewServer(t, sftptest.Script{})
		counter := sftptest.NewCounter(server.Dial(sftptest.LinkConfig{ToServer: time.Millisecond,
			ToClient: time.Millisecond}))
		client := clientOf(t, counter, usftp.WithServerVersion(version))
		if got, want := private.OfClient(client).WorksInOrder(),
			version != "SSH-2.0-Go"; got != want {
			t.Fatalf("%s: in order: %v", version, got)
		}
		for _, size := range []int{0, 1, 4096} {
			data := bytes.Repeat([]byte{'x'}, size)
			stamp := time.Unix(1_000_000_000, 0)
			f, err := client.OpenFile("/small", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			counter.Reset()
			given := bytes.Clone(data)
			wait := private.OfFile(f).StartWriteClose(given,
				usftp.NewAttrs{SetMode: true, Mode: 0o640,
					SetTimes: true, Atime: stamp, Mtime: stamp})
			clear(given) // the caller may reuse it
			refused, err := wait()
			if refused != nil || err != nil {
				t.Fatal(refused, err)
			}
			if trips := counter.Counts().RoundTrips; private.OfClient(client).WorksInOrder() &&
				trips != 1 {
				t.Errorf("%s: %d bytes: written in %d round trips", version, size, trips)
			}
			info, err := client.Stat("/small")
			if err != nil || info.Size() != int64(size) || info.Mode() != 0o640 ||
				!info.ModTime().Equal(stamp) {
				t.Errorf("%s: %d bytes became %v, %v", version, size, info, err)
			}
			f, err = client.Open("/small")
			if err != nil {
				t.Fatal(err)
			}
			counter.Reset()
			var got []byte
			began, closing := time.Now(), false
			after, err := private.OfFile(f).ReadClose(size, func() []byte {
				if time.Since(began) < 2*time.Millisecond {
					t.Errorf("%s: %d bytes: memory is taken before they have arrived", version,
						size)
				}
				if got = make([]byte, size); closing != private.OfClient(client).WorksInOrder() {
					t.Errorf("%s: %d bytes: CLOSE is on its way: %v", version, size, closing)
				}
				return got
			}, func() { closing = true })
			if err != nil || !bytes.Equal(got, data) || after == nil || after.Size != uint64(size) {
				t.Errorf("%s: %d bytes read back: %v, %v", version, size, after, err)
			}
			if trips := counter.Counts().RoundTrips; private.OfClient(client).WorksInOrder() &&
				trips != 1 {
				t.Errorf("%s: %d bytes: read in %d round trips", version, size, trips)
			}
		}
		if _, err := client.Stat("/"); err != nil { // flushes a CLOSE that nobody waited for
			t.Fatal(err)
		}
		if open := server.OpenHandles(); open != 0 {
			t.Errorf("%s: %d handles are left open", version, open)
		}
	}
}

// An error in any part of the burst is reported, and the file is closed.
func TestSmallFilesFail(t *testing.T) {
	for name, test := range map[string]struct {
		fault        sftptest.Fault
		write        bool
		refused, err error
	}{
		"write": {fault: sftptest.Fault{On: wire.TypeWrite,
			Do: sftptest.Refuse(wire.PermissionDenied, "quota")}, write: true,
			err: os.ErrPermission},
		"fsetstat": {fault: sftptest.Fault{On: wire.TypeFsetstat,
			Do: sftptest.Refuse(wire.OpUnsupported, "no")}, write: true,
			refused: errors.ErrUnsupported},
		"close": {fault: sftptest.Fault{On: wire.TypeClose,
			Do: sftptest.Fail(wire.PermissionDenied, "late")}, write: true, err: os.ErrPermission},
		"read": {fault: sftptest.Fault{On: wire.TypeRead,
			Do: sftptest.Refuse(wire.PermissionDenied, "no")}, err: os.ErrPermission},
		"grown": {fault: sftptest.Fault{On: wire.TypeOpen, Do: sftptest.Resize("/small", 9)},
			err: private.ErrOtherSize},
		"shrunk": {fault: sftptest.Fault{On: wire.TypeOpen, Do: sftptest.Resize("/small", 3)},
			err: private.ErrOtherSize},
	} {
		t.Run(name, func(t *testing.T) {
			server := sftptest.NewServer(t, sftptest.Script{Faults: []sftptest.Fault{test.fault}})
			server.Files.WriteFile("/small", []byte("12345"))
			client := clientOf(t, server.Dial(sftptest.LinkConfig{}), usftp.WithServerVersion("OpenSSH"))
			flag := os.O_RDONLY
			if test.write {
				flag = os.O_WRONLY
			}
			f, err := client.OpenFile("/small", flag, 0)
			if err != nil {
				t.Fatal(err)
			}
			var refused error
			if test.write {
				refused, err = private.OfFile(f).StartWriteClose([]byte("1234"),
					usftp.NewAttrs{SetMode: true, Mode: 0o600})()
			} else {
				_, err = private.OfFile(f).ReadClose(5, func() []byte { return make([]byte, 5) }, func() {})
			}
			if !errors.Is(err, test.err) || !errors.Is(refused, test.refused) {
				t.Errorf("got %v and %v", refused, err)
			}
			if f.IsOpen() {
				t.Error("the file is still open")
			}
		})
	}
}
