package transfer_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/checksum"
	"github.com/usftp/usftp/internal/soak"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// TestRandomFaults: copies run against unusual servers, with spoiled replies, and are
// interrupted at any moment. The target is the old file or the new one, unless an event says that
// it is written in place; every leftover is named; and the copy ends soon.
func TestRandomFaults(t *testing.T) {
	for seed := range uint64(soak.Pick(30, 150)) {
		rng := rand.New(rand.NewPCG(seed, 30))
		script, link := sftptest.RandomScript(seed), sftptest.RandomLink(seed)
		for range rng.IntN(3) {
			fault := sftptest.RandomFault(rng.Uint64())
			if strings.Contains(fault.Do.String(), "TypeStatus") {
				continue // a success that did nothing is a lie that cannot be detected
			}
			switch fault.On {
			case 0, wire.TypeOpen, wire.TypeRename, wire.TypeExtended:
				if strings.Contains(fault.Do.String(), "Fail(") {
					continue // nor can a refusal of what was in fact done
				}
			}
			script.Faults = append(script.Faults, fault)
		}
		if rng.IntN(3) == 0 {
			script.Extensions = []wire.ExtensionPair{}
		}
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { misfortune(t, seed, rng, script, link) })
		})
	}
}

func misfortune(t *testing.T, seed uint64, rng *rand.Rand, script sftptest.Script,
	link sftptest.LinkConfig) {
	server := sftptest.NewScripted(script)
	defer server.Close()
	stream := server.Dial(link)
	client, err := usftp.NewClientPipe(stream, stream,
		usftp.WithKeepalive(func(context.Context) error { return errors.New("nobody there") }))
	if err != nil {
		return
	}
	defer client.Close()
	b := &bench{t: t, server: server, host: pool.Host{Client: client, Name: "far"},
		dir: t.TempDir()}

	old, fresh := random(1+rng.IntN(1000)), random(rng.IntN(1_500_000))
	there := rng.IntN(3) > 0
	direction := way(rng.IntN(2))
	source, target := "/source", filepath.Join(b.dir, "target")
	read := func() ([]byte, error) { return os.ReadFile(target) }
	if direction == upload {
		source, target = b.local("source", fresh), "/target"
		read = func() ([]byte, error) { return b.server.Files.ReadFile(target) }
		if there {
			server.Files.WriteFile(target, old)
		}
	} else {
		server.Files.WriteFile(source, fresh)
		if there {
			b.local("target", old)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	var interrupted time.Time
	if rng.IntN(3) == 0 {
		after := time.Duration(rng.Int64N(int64(20*link.RTT()) + int64(10*time.Millisecond)))
		time.AfterFunc(after, func() { interrupted = time.Now(); cancel() })
	}
	defer cancel()
	result, err := b.jobContext(ctx, direction, source, target)
	took := time.Since(interrupted)
	wrong := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s\n\tseed %d, %v of %d bytes, %+v, %v\n\tnotes %q, %v, %v",
			fmt.Sprintf(format, args...), seed, direction, len(fresh), result, err, b.notes(),
			script, link)
	}
	if !interrupted.IsZero() && err != nil && took > 8*time.Second {
		wrong("it took %v to end", took)
	}
	got, readErr := read()
	switch {
	case err == nil && !bytes.Equal(got, fresh):
		wrong("it has succeeded, and the target has %d bytes, %v", len(got), readErr)
	case err != nil && there && readErr != nil && strings.Contains(err.Error(),
		"the file that it replaces may be"): // without posix-rename
	case err != nil && !there && readErr != nil, there &&
		bytes.Equal(got, old), bytes.Equal(got, fresh):
	case !result.InPlace || !strings.Contains(err.Error(), "in place"):
		wrong("the target has %d bytes that are neither the old nor the new, %v", len(got), readErr)
	}
	if err == nil && result.Bytes != int64(len(fresh)) {
		wrong("%d bytes are said to have been copied", result.Bytes)
	}
	for _, left := range b.temporaries() {
		named := result.LeftBehind != "" &&
			filepath.Base(left) == filepath.Base(result.LeftBehind) &&
			strings.Contains(err.Error(), result.LeftBehind)
		named = named || strings.Contains(fmt.Sprint(err, b.notes()), filepath.Base(left))
		if !named {
			wrong("%s is left behind and not named", left)
		}
	}
	if result.LeftBehind != "" && result.Bytes > 0 &&
		!strings.Contains(err.Error(), "or has its name already") {
		left, readErr := os.ReadFile(result.LeftBehind)
		if direction == upload {
			left, readErr = server.Files.ReadFile(result.LeftBehind)
		}
		if readErr != nil || int64(len(left)) < result.Bytes ||
			!bytes.Equal(left[:result.Bytes], fresh[:result.Bytes]) {
			wrong("what is left has %d bytes, not those %d, %v", len(left), result.Bytes, readErr)
		}
	}
}

// TestInterruptionOfSilence: an interrupted copy does not wait for a server that says nothing more.
func TestInterruptionOfSilence(t *testing.T) {
	for _, on := range []wire.Type{wire.TypeStat, wire.TypeOpen, wire.TypeWrite, wire.TypeFsetstat,
		wire.TypeClose, wire.TypeExtended} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, sftptest.Script{Faults: []sftptest.Fault{{On: on, Skip: 1,
				Do: sftptest.Silence()}}}, sftptest.LinkConfig{})
			b.server.AddFaults(sftptest.Fault{On: on, Path: "/target", Do: sftptest.Silence()})
			b.server.Files.WriteFile("/target", []byte("old"))
			ctx, cancel := context.WithCancel(t.Context())
			var began time.Time
			time.AfterFunc(5*time.Second, func() { began = time.Now(); cancel() })
			_, err := b.jobContext(ctx, upload, b.local("source", random(3<<20)),
				"/target")
			if err == nil {
				return // these need no second run
			}
			if took := time.Since(began); took > 6*time.Second ||
				!errors.Is(err, context.Canceled) {
				t.Errorf("silent from %v on: it took %v: %v", on, took, err)
			}
		})
	}
}

// TestInterruptedOpen: the temporary file of a copy interrupted while creating it is removed.
func TestInterruptedOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, sftptest.Script{Faults: []sftptest.Fault{{On: wire.TypeOpen,
			Do: sftptest.Delay(time.Second)}}}, sftptest.LinkConfig{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		result, err := b.jobContext(ctx, upload, b.local("source", random(1000)),
			"/target")
		if !errors.Is(err, context.DeadlineExceeded) || result.LeftBehind != "" {
			t.Errorf("%+v, %v", result, err)
		}
		time.Sleep(time.Minute)
		if left := b.temporaries(); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
		if n := b.server.OpenHandles(); n != 0 {
			t.Errorf("%d handles are open", n)
		}
	})
}

// TestLostBeforeTheFirstByte: a temporary file that can no longer be removed is named.
func TestLostBeforeTheFirstByte(t *testing.T) {
	b := newBench(t, sftptest.Script{Faults: []sftptest.Fault{{On: wire.TypeWrite,
		Do: sftptest.Hangup()}}}, sftptest.LinkConfig{})
	result, err := b.job(upload, b.local("source", random(1000)), "/target")
	left := b.temporaries()
	if err == nil || len(left) != 1 || result.LeftBehind != left[0] ||
		!strings.Contains(err.Error(), left[0]) {
		t.Errorf("%v is left; the result is %+v, %v", left, result, err)
	}
}

// TestUploadOneWriteAtATime: a server that refuses concurrent WRITEs gets them one by one.
func TestUploadOneWriteAtATime(t *testing.T) {
	data := random(2 << 20)
	for name, o := range map[string]transfer.Options{
		"plain":         {},
		"hash":          {Hash: checksum.SHA256},
		"limit":         {RateLimit: 1 << 40},
		"limit, hashed": {RateLimit: 1 << 40, Hash: checksum.SHA256},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, sftptest.Script{OneWrite: true}, sftptest.LinkConfig{})
			r, err := b.job(upload, b.local("source", data), "/target",
				func(j *copyJob) { j.Options = o })
			if err != nil || !bytes.Equal(b.remote("/target"), data) {
				t.Error(err)
			}
			if sum := sha256.Sum256(data); o.Hash != "" && !bytes.Equal(r.Hash.Sum, sum[:]) {
				t.Errorf("hash %v", r.Hash)
			}
		})
	}
}

// TestOddStreams: readers and writers that break their contract, with and without a rate limit.
func TestOddStreams(t *testing.T) {
	for _, limit := range []int64{0, 1 << 40} {
		for _, count := range []int{0, -1, 1 << 30} {
			b := newBench(t, sftptest.Script{}, sftptest.LinkConfig{})
			b.server.Files.WriteFile("/source", random(100_000))
			odd := oddStream(count)
			_, err := b.job(download, "/source", "-",
				func(j *copyJob) { j.Writer, j.Options.RateLimit = odd, limit })
			if err == nil {
				t.Errorf("limit %d: a Write that says %d is no error", limit, count)
			}
			_, err = b.job(upload, "-", "/target",
				func(j *copyJob) { j.Reader, j.Options.RateLimit = odd, limit })
			if err == nil || b.server.Files.Exists("/target") || len(b.temporaries()) > 0 {
				t.Errorf("limit %d: a Read that says %d: %v, %v", limit, count, err,
					b.server.Files.List())
			}
		}
	}
}

type oddStream int

func (s oddStream) Write(p []byte) (int, error) { return int(s), nil }
func (s oddStream) Read(p []byte) (int, error)  { return int(s), nil }

// TestPanicOfTheReader: after a program recovers from the panic, nothing reports progress any more.
func TestPanicOfTheReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, sftptest.Script{}, sftptest.LinkConfig{})
		told := make(chan struct{}, 100)
		func() {
			defer func() { recover() }()
			b.job(upload, "-", "/target", func(j *copyJob) {
				j.Reader = io.MultiReader(nil) // calls a method on nil
				j.Options.SetProgressEvery(time.Millisecond)
				j.Options.Events = func(transfer.Event) { told <- struct{}{} }
			})
			t.Error("the panic was swallowed")
		}()
		for range len(told) {
			<-told
		}
		time.Sleep(time.Minute) // of a fake clock
		synctest.Wait()
		if len(told) > 0 {
			t.Errorf("%d events after the job's end", len(told))
		}
	})
}
