package usftp_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// TestAbandon: whoever gives a file up, or loses what was to be written to it, sends no CLOSE if
// the server can abandon files, and nothing else otherwise.
func TestAbandon(t *testing.T) {
	cause := errors.New("the source fails")
	create := func(c *rig) *usftp.File {
		return must[*usftp.File](t)(c.Create("/f"))
	}
	for _, test := range []struct {
		name    string
		run     func(t *testing.T, r *rig)
		abandon bool
	}{
		{"Abandon", func(t *testing.T, r *rig) {
			f := create(r)
			must[int](t)(f.Write([]byte("half")))
			ok(t, f.Abandon())
			if err := f.Close(); !errors.Is(err, fs.ErrClosed) {
				t.Errorf("Close: %v", err)
			}
			if err := f.Abandon(); !errors.Is(err, fs.ErrClosed) {
				t.Errorf("Abandon again: %v", err)
			}
		}, true},
		{"Abandon with what was not flushed", func(t *testing.T, r *rig) {
			f := create(r)
			must[int](t)(f.Writer().Write([]byte("half")))
			ok(t, f.Abandon())
			if n := len(r.server.Requests(wire.TypeWrite)); n != 0 {
				t.Errorf("%d WRITEs", n)
			}
		}, true},
		{"a reader that fails, and Abandon", func(t *testing.T, r *rig) {
			f := create(r)
			if _, err := f.ReadFrom(iotest.ErrReader(cause)); !errors.Is(err, cause) {
				t.Errorf("ReadFrom: %v", err)
			}
			must[struct{}](t)(f.Async().Abandon().Wait())
		}, true},
		{"Close after a Writer that failed", func(t *testing.T, r *rig) {
			f := create(r)
			must[int](t)(f.Writer().Write([]byte("half")))
			r.server.AddFaults(sftptest.Fault{On: wire.TypeWrite,
				Do: sftptest.Refuse(wire.Failure, "")})
			if err := f.Close(); !errors.Is(err, usftp.ErrSSHFxFailure) {
				t.Errorf("Close: %v", err)
			}
		}, true},
		{"WriteFile that fails", func(t *testing.T, r *rig) {
			r.server.AddFaults(sftptest.Fault{On: wire.TypeWrite,
				Do: sftptest.Refuse(wire.Failure, "")})
			if err := r.WriteFile("/f", []byte("half"), 0o644); err == nil {
				t.Error("it was written")
			}
		}, true},
		{"OPEN that nobody waits for", func(t *testing.T, r *rig) {
			gate := new(sftptest.Gate)
			r.server.AddFaults(sftptest.Fault{On: wire.TypeOpen, Do: sftptest.Hold(gate)})
			ctx, cancel := context.WithCancel(t.Context())
			go func() { synctest.Wait(); cancel() }()
			if _, err := r.WithContext(ctx).Create("/f"); !errors.Is(err, context.Canceled) {
				t.Errorf("Create: %v", err)
			}
			gate.Open()
			synctest.Wait()
		}, true},
		{"Close", func(t *testing.T, r *rig) {
			f := create(r)
			must[int](t)(f.Write([]byte("whole")))
			ok(t, f.Close())
		}, false},
		{"Abandon of what is read", func(t *testing.T, r *rig) {
			r.server.Files.WriteFile("/f", []byte("text"))
			f := must[*usftp.File](t)(r.OpenFile("/f", os.O_RDONLY, 0))
			must[[]byte](t)(io.ReadAll(f))
			ok(t, f.Abandon())
			synctest.Wait()
		}, false},
	} {
		for _, offered := range []bool{true, false} {
			bubble(t, func(t *testing.T) {
				extensions := sftptest.OpenSSHExtensions()
				if offered {
					extensions = append(extensions,
						wire.ExtensionPair{Name: wire.ExtAbandon, Data: "1"})
				}
				r := newRig(t, sftptest.Script{Extensions: extensions}, 0)
				test.run(t, r)
				abandoned := slices.ContainsFunc(r.server.Requests(wire.TypeExtended),
					func(q sftptest.Request) bool { return q.Extension == wire.ExtAbandon })
				closed := len(r.server.Requests(wire.TypeClose)) > 0
				if want := test.abandon && offered; abandoned != want || closed == want {
					t.Errorf("%s, offered %v: abandoned %v, closed %v", test.name, offered, abandoned,
						closed)
				}
				if n := r.server.OpenHandles(); n != 0 {
					t.Errorf("%s, offered %v: %d handles are open", test.name, offered, n)
				}
			})
		}
	}
}

// TestAbandonedHandleIsGivenAgain: a handle is free for another file once its file was abandoned.
func TestAbandonedHandleIsGivenAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftptest.Script{SharedHandles: 1, Extensions: []wire.ExtensionPair{
			{Name: wire.ExtAbandon, Data: "1"}}}, 0)
		for range 3 {
			f := must[*usftp.File](t)(r.Create("/f"))
			must[int](t)(f.Write([]byte("half")))
			ok(t, f.Abandon())
		}
		f := must[*usftp.File](t)(r.Create("/f"))
		must[int](t)(f.Write([]byte("whole")))
		ok(t, f.Close())
	})
}
