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

func (t *writerTarget) place(c *fileCopy, in *input) (*output, error) {
	if base := c.src.Base(c.source); base != "" {
		c.listName = base
	}
	return &output{location: location{name: "-", direct: true, stream: true}, pipe: t.w}, nil
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

// start makes an io.Writer, or a pipe or a device of this machine, ready to be written. What
// was written cannot be taken back: another attempt continues after it, if the source is unchanged.
func (o streamed) start(c *fileCopy, source *endpoint.Info) error {
	if o.pipe == nil {
		if err := c.known.device.open(c.ctx, o.name); err != nil {
			return err
		}
		o.pipe = c.known.device.file
	}
	known := source.IsRegular() && source.HasTimes
	if c.known.reached == 0 {
		if c.known.poured = nil; known {
			c.known.poured = source
		}
		return nil
	}
	c.result.Bytes = c.known.reached
	if !known || source.Size != c.known.poured.Size ||
		!source.Mtime.Equal(c.known.poured.Mtime) {
		taken(c)
		return ErrSourceChanged
	}
	c.startAt(c.known.reached)
	return nil
}

// pour fills a stream.
func (o streamed) pour(c *fileCopy, in *input) error {
	n, err := pour(in, sink{Writer: o.pipe})
	c.result.Bytes = c.result.Resumed + n
	// without the source's facts, or with a hash, another attempt cannot continue from here
	c.known.spent = c.known.spent || c.result.Bytes > 0 &&
		(c.known.poured == nil || c.hashes())
	return err
}

// flush flushes a device if that was asked for.
func (o streamed) flush(c *fileCopy) (err error) {
	if d := c.known.device.file; d != nil {
		w := endpoint.LocalWriter{File: d}
		_, err = w.Finish(c.ctx, &endpoint.Finish{Flush: c.options.Sync})
	}
	return err
}

// taken says what can no longer be taken back.
func taken(c *fileCopy) {
	if c.result.Bytes > 0 {
		c.result.detail = fmt.Sprintf("%d bytes of it have been written", c.result.Bytes)
	}
}
