package filecopy

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/checksum"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
)

// quiet is a Reporter of a copy that nobody watches.
type quiet struct{ Reporter }

func (quiet) Started()                          {}
func (quiet) Resumed(int64)                     {}
func (quiet) Report(func() int64) (stop func()) { return func() {} }
func (quiet) Finishing() (stop func())          { return func() {} }

// TestNoHashCostsNothing: without a hash nothing stands between source and target.
func TestNoHashCostsNothing(t *testing.T) {
	var copied strings.Builder
	c := new(Copy)
	c.Start(&Request{Run: &Run{Ctx: t.Context(), Src: endpoint.Stream{Reader: strings.NewReader("x")},
		Dst: &WriterTarget{W: &copied}, Common: new(Common)}, Reporter: quiet{},
		Container: NoDirectory{}}, "")
	if err := c.Do(Once); err != nil || copied.String() != "x" {
		t.Fatalf("%q, %v", &copied, err)
	}
	if h := &c.hashing; h.pipe != nil || h.digests != nil || !h.hash.IsZero() {
		t.Error("something is hashed")
	}
}

// interrupting is an endless file whose first read interrupts the run.
type interrupting struct {
	cancel func()
	reads  int
}

func (f *interrupting) ReadAt(p []byte, _ int64) (int, error) {
	f.reads++
	f.cancel()
	return len(p), nil
}

func (f *interrupting) Close() error { return nil }

// TestInterruptedHash: who interrupts a run does not wait until what an earlier run copied has been
// read and hashed.
func TestInterruptedHash(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	const size = 1 << 30
	c := &Copy{Request: Request{Run: &Run{Ctx: ctx, Options: Options{Hash: checksum.SHA256},
		Src: endpoint.Local{}, Dst: new(LocalTarget)}}, Size: size}
	c.Result.Resumed, c.Result.Bytes = size, size
	file := &interrupting{cancel: cancel}
	c.hashing.start(c, func() (endpoint.ReadAtCloser, error) { return file, nil })
	if err := c.hashing.finish(c); !errors.Is(err, context.Canceled) || file.reads > 1 {
		t.Errorf("%d reads, %v", file.reads, err)
	}
}

// TestInterruptedProof: nor until the proof of what was left is complete.
func TestInterruptedProof(t *testing.T) {
	near, far := net.Pipe()
	files := memfs.New(1 << 20)
	go server.Serve(context.Background(), far, files, nil)
	client, err := usftp.NewClientPipe(near, near)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.WriteFile("/left", []byte("part"), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := client.Open("/left")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ctx, cancel := context.WithCancel(t.Context())
	file := &interrupting{cancel: cancel}
	same, known := prover{&session{client: client}}.begins(ctx, f, file, 1<<30)
	if same || known || file.reads > 1 {
		t.Errorf("%v, %v, after %d reads", same, known, file.reads)
	}
}
