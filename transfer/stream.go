package transfer

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/pool"
)

// Reader returns an endpoint that is read from r, which is not closed. Events and errors call it
// "-". If r has a method Len() int, as a *bytes.Reader has, that many bytes are expected.
func Reader(r io.Reader) Endpoint {
	return Endpoint{path: "-",
		newSource: func(*job) (end, error) { return streamOf(r), nil }}
}

// Writer returns an endpoint that is written to w, which is not closed. Events and errors call it
// "-". A lost connection is replaced only if the source can be proved to be unchanged.
func Writer(w io.Writer) Endpoint {
	return Endpoint{path: "-",
		newTarget: func(*job) (target, error) { return &writerTarget{w: w}, nil }}
}

// streamEnd is common to Readers and Writers: they have no trees.
type streamEnd struct{ endpoint.Stream }

func streamOf(r io.Reader) streamEnd { return streamEnd{endpoint.Stream{Reader: r}} }

func (streamEnd) conn() *pool.Conn                  { return nil }
func (e streamEnd) opener(*session) endpoint.Opener { return e.Stream }
func (streamEnd) limits() (limits, error)           { return limits{}, endpoint.ErrStream }

// streamTarget is a target that holds no tree.
type streamTarget struct{ streamEnd }

func (streamTarget) dispose(string) bool            { return false }
func (streamTarget) check(*directory, string) error { return endpoint.ErrStream }
func (streamTarget) asSource() end                  { return nil }

func (streamTarget) begin(endpoint.Info, string, func() error) (targetDir, error) {
	return targetDir{path: "-"}, endpoint.ErrStream
}

// writerTarget is an io.Writer as a target.
type writerTarget struct {
	streamTarget
	w io.Writer
}

func (t *writerTarget) place(c *fileCopy, in *input) (output, error) {
	if base := c.src.Base(c.source); base != "" {
		c.name = base
	}
	return &writerOutput{location{name: "-", direct: true, stream: true}, t.w}, nil
}

// writerOutput writes to an io.Writer, or to a pipe or a device of this machine. What was written
// cannot be taken back: another attempt continues after it, if the source is unchanged.
type writerOutput struct {
	location
	w io.Writer // nil until a device is open
}

func (o *writerOutput) close()                           {}
func (o *writerOutput) writer() endpoint.Writer          { return nil }
func (o *writerOutput) finalize(*fileCopy, *input) error { return nil }

func (o *writerOutput) commit(c *fileCopy, _ *input) (err error) {
	if d := c.attempts.device.file; d != nil {
		_, err = endpoint.LocalWriter{File: d}.Finish(c.ctx, &endpoint.Finish{Flush: c.options.Sync})
	}
	return err
}

// A device is a pipe or a device that is written. It stays open from the first attempt to the last:
// a program that reads it must not see its end in between.
type device struct {
	file *os.File
	free func() // makes writes interruptible no longer
}

func (d *device) open(ctx context.Context, name string) (err error) {
	if d.file == nil {
		if d.file, err = localfs.OpenWaiting(ctx, func() (*os.File, error) {
			return os.OpenFile(name, os.O_WRONLY, 0)
		}); err == nil {
			d.free = localfs.Interruptible(ctx, d.file)
		}
	}
	return err
}

func (d *device) close() {
	d.free()
	d.file.Close()
}

func (o *writerOutput) create(c *fileCopy, in *input) error {
	if err := in.ready(); err != nil {
		return err
	}
	c.sized(in)
	if o.w == nil {
		if err := c.attempts.device.open(c.ctx, o.name); err != nil {
			return err
		}
		o.w = c.attempts.device.file
	}
	now := in.info()
	known := now.IsRegular() && now.HasTimes
	if c.attempts.reached == 0 {
		if c.attempts.poured = nil; known {
			c.attempts.poured = now
		}
		return nil
	}
	c.result.Bytes = c.attempts.reached
	if !known || now.Size != c.attempts.poured.Size || !now.Mtime.Equal(c.attempts.poured.Mtime) {
		o.taken(c)
		return ErrSourceChanged
	}
	c.startAt(c.attempts.reached)
	return nil
}

func (o *writerOutput) fill(c *fileCopy, in *input) error {
	n, err := in.pour(sink{Writer: o.w})
	c.result.Bytes = c.result.Resumed + n
	// without the source's facts, or with a hash, another attempt cannot continue from here
	c.attempts.once = c.attempts.once || c.result.Bytes > 0 &&
		(c.attempts.poured == nil || c.hashes())
	return err
}

// taken says what can no longer be taken back.
func (*location) taken(c *fileCopy) {
	if c.result.Bytes > 0 {
		c.detail = fmt.Sprintf("%d bytes of it have been written", c.result.Bytes)
	}
}
