//go:build unix

package endpoint_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/endpoint/endpointtest"
	"github.com/usftp/usftp/internal/quirks"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// A writing is a file on a scripted server that is written over.
type writing struct {
	*endpoint.HostWriter
	server *sftptest.Scripted
	disk   endpointtest.Disk
}

// old is what the file had before, and written what it is to have.
const old, written = "what was there before", "what is new"

func newWriting(t *testing.T, script sftptest.Script, version string) *writing {
	t.Helper()
	server := sftptest.NewServer(t, script)
	disk := endpointtest.Memory(t, server.Files, "/top")
	server.Files.Mkdir("/top")
	disk.Write("file", old)
	end := server.Dial(sftptest.LinkConfig{})
	client := newClient(t, end, end, version)
	t.Cleanup(func() { client.Close() })
	f, err := client.OpenFile("/top/file", os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteAt([]byte(written), 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &writing{&endpoint.HostWriter{File: f, Quirks: new(quirks.Quirks)}, server, disk}
}

// finish is all that can be asked for.
func finish() *endpoint.Finish {
	stamp := time.Unix(1_000_000_000, 0)
	return &endpoint.Finish{Truncate: true, Size: int64(len(written)), Own: true, Flush: true,
		Set: usftp.NewAttrs{SetMode: true, Mode: 0o640, SetTimes: true, Atime: stamp, Mtime: stamp}}
}

// What ends a file is lost at each of its requests, before it is carried out and after. It is never
// taken for done, and what was written stays.
func TestWriterLost(t *testing.T) {
	ends := map[string]func(w *writing) (done bool, err error){
		"Finish": func(w *writing) (bool, error) {
			_, err := w.Finish(t.Context(), finish())
			return err == nil, err
		},
		"Keep": func(w *writing) (bool, error) {
			ok, flushed := w.Keep(t.Context(), int64(len(written)))
			if !ok {
				return false, errors.New("it is not kept")
			}
			return flushed, nil
		},
	}
	for name, version := range map[string]string{"in order": openSSH, "step by step": ""} {
		for when, do := range map[string]sftptest.Action{"before": sftptest.Hangup(),
			"after": sftptest.Truncate(0), "within the reply": sftptest.Truncate(7)} {
			for verb, end := range ends {
				t.Run(fmt.Sprintf("%s/%s/%s", name, when, verb), func(t *testing.T) {
					for at := 0; ; at++ {
						w := newWriting(t, sftptest.Script{}, version)
						w.server.ForgetRequests()
						w.server.AddFaults(sftptest.Fault{Skip: at, Times: 1, Do: do})
						done, err := end(w)
						requests, state := w.server.Requests(), w.disk.State("file")
						if len(requests) <= at { // there was no such request
							if !done || err != nil || state != "= "+written || at < 3 {
								t.Errorf("after %v it is %q: %v, %v", requests, state, done, err)
							}
							return
						}
						if verb == "Finish" && (done || endpoint.Refused(err)) ||
							verb == "Keep" && (err != nil || done && at < 2) ||
							!strings.HasPrefix(state, "= "+written) {
							t.Fatalf("lost at request %d of %v, it is %q: %v, %v", at, requests,
								state, done, err)
						}
					}
				})
			}
		}
	}
}

// A host that does not truncate a file is found out, whatever it says.
func TestNotTruncated(t *testing.T) {
	for name, script := range map[string]sftptest.Script{
		"refused": {Faults: refuse(wire.TypeFsetstat)},
		"says yes and does nothing": {Faults: []sftptest.Fault{{On: wire.TypeFsetstat,
			Do: sftptest.Refuse(wire.OK, "")}}},
	} {
		for order, version := range map[string]string{"in order": openSSH, "step by step": ""} {
			t.Run(name+"/"+order, func(t *testing.T) {
				w := newWriting(t, script, version)
				_, err := w.Finish(t.Context(), finish())
				if !errors.Is(err, endpoint.ErrNotTruncated) || !w.Quirks.WholeFiles.Load() {
					t.Errorf("it is not found out: %v", err)
				}
				if state := w.disk.State("file"); state != "= "+written+old[len(written):] {
					t.Errorf("it is %q", state)
				}
			})
		}
	}
}

// A file that would be emptied to be cut is not cut.
func TestNotEmptied(t *testing.T) {
	w := newWriting(t, sftptest.Script{}, "SSH-2.0-paramiko_3.5.0")
	w.server.ForgetRequests()
	_, err := w.Finish(t.Context(), finish())
	asked := w.server.Requests(wire.TypeFsetstat, wire.TypeClose)
	if !errors.Is(err, endpoint.ErrNotTruncated) || !w.Quirks.WholeFiles.Load() || len(asked) > 0 {
		t.Errorf("%v after %v", err, asked)
	}
}

// A file that CLOSE shows is not closed if it could not be cut or flushed.
func TestNotShown(t *testing.T) {
	for name, fault := range map[string]sftptest.Fault{
		"not cut": {On: wire.TypeFsetstat, Times: 1, Do: sftptest.Refuse(wire.Failure, "no")},
		"not flushed": {On: wire.TypeExtended, Extension: wire.ExtFsync,
			Do: sftptest.Refuse(wire.Failure, "no")},
	} {
		for order, version := range map[string]string{"in order": openSSH, "step by step": ""} {
			w := newWriting(t, sftptest.Script{Faults: []sftptest.Fault{fault}}, version)
			f := finish()
			f.Shows = true
			_, err := w.Finish(t.Context(), f)
			if closed := w.server.Requests(wire.TypeClose); err == nil || len(closed) > 0 {
				t.Errorf("%s, %s: %v, %v", name, order, err, closed)
			}
		}
	}
}

// TestNoFlush: a file that nobody asked to flush does not fail where there is no fsync. It fails where
// fsync fails, since its data may be lost, and where it was asked for.
func TestNoFlush(t *testing.T) {
	for _, test := range []struct {
		code         wire.Code
		asked, fails bool
	}{
		{code: wire.OpUnsupported},
		{code: wire.BadMessage}, // OpenSSH's EINVAL
		{code: wire.Failure, fails: true},
		{code: wire.OpUnsupported, asked: true, fails: true},
	} {
		w := newWriting(t, sftptest.Script{Faults: []sftptest.Fault{{On: wire.TypeExtended,
			Extension: wire.ExtFsync, Do: sftptest.Refuse(test.code, "no")}}}, openSSH)
		f := finish()
		f.Early, f.Flush = true, test.asked
		if _, err := w.Finish(t.Context(), f); (err != nil) != test.fails {
			t.Errorf("%+v: %v", test, err)
		}
	}
}

// Where FSETSTAT is not known attributes are set by path, and FSETSTAT is not asked for again.
func TestSetByPath(t *testing.T) {
	script := sftptest.Script{Faults: []sftptest.Fault{{On: wire.TypeFsetstat,
		Do: sftptest.Refuse(wire.OpUnsupported, "no")}}}
	w := newWriting(t, script, openSSH)
	for range 2 {
		f := finish()
		f.Truncate = false
		w.server.ForgetRequests()
		known := w.Quirks.NoFsetstat.Load()
		done, err := w.Finish(t.Context(), f)
		if err != nil || done != (endpoint.Finished{}) {
			t.Fatalf("%+v, %v", done, err)
		}
		if mode, mtime := w.disk.Attrs("file"); mode != 0o640 || !mtime.Equal(f.Set.Mtime) {
			t.Errorf("it has %v of %v", mode, mtime)
		}
		asked := slices.ContainsFunc(w.server.Requests(), func(r sftptest.Request) bool {
			return r.Type == wire.TypeFsetstat
		})
		if asked == known || !w.Quirks.NoFsetstat.Load() {
			t.Errorf("known is %v and it is asked: %v", known, w.server.Requests())
		}
		if w.File, err = w.Client().OpenFile("/top/file", os.O_WRONLY, 0); err != nil {
			t.Fatal(err)
		}
	}
}
