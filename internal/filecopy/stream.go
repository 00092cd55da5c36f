package filecopy

import (
	"context"
	"os"

	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/localfs"
)

func (t *WriterTarget) place(c *Copy) (*output, error) {
	if base := c.Src.Base(c.Source); base != "" {
		c.ListName = base
	}
	return &output{location: location{name: "-", direct: true, stream: true}, pipe: t.W}, nil
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

// start prepares an io.Writer, or a pipe or a device of this machine, for writing. Written data
// cannot be taken back: another attempt continues after it, if the source is unchanged.
func (o streamed) start(c *Copy, source *endpoint.Info) error {
	if o.pipe == nil {
		if err := c.known.device.open(c.Ctx, o.name); err != nil {
			return err
		}
		o.pipe = c.known.device.file
	}
	known := source.IsRegular() && source.HasTimes
	if c.known.given == 0 {
		if c.known.poured = nil; known {
			c.known.poured = source
		}
		return nil
	}
	if !known || source.Size != c.known.poured.Size ||
		!source.Mtime.Equal(c.known.poured.Mtime) {
		return ErrSourceChanged
	}
	c.startAt(c.known.given)
	return nil
}

// pour fills a stream.
func (o streamed) pour(c *Copy, in *input) error {
	n, err := pour(in, sink{Writer: o.pipe})
	c.Result.Bytes = c.Result.Resumed + n
	c.known.given = c.Result.Bytes
	// Without the source's facts, or with a hash, another attempt cannot continue from here, nor
	// after bytes that may be another file's.
	c.known.spent = c.known.spent || c.Result.Bytes > 0 &&
		(c.known.poured == nil || c.hashes() || sharesHandle(err))
	return err
}

// flush flushes a device if that was asked for.
func (o streamed) flush(c *Copy) (err error) {
	if d := c.known.device.file; d != nil {
		w := endpoint.LocalWriter{File: d}
		_, err = w.Finish(c.Ctx, &endpoint.Finish{Flush: c.Options.Sync})
	}
	return err
}
