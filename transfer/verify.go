package transfer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/usftp/usftp"
)

// ErrVerify says that what was stored is not what was to be copied.
var ErrVerify = errors.New("what was stored differs from the source")

// verifyRemote compares what the host has stored with the source, before it gets its name.
func (r *run) verifyRemote(path string, from *source) error {
	if !r.Options.Verify {
		return nil
	}
	if r.Reader != nil || !from.before.Mode().IsRegular() {
		return fmt.Errorf("%w: the source cannot be read again", errors.ErrUnsupported)
	}
	local, err := os.Open(r.Source)
	if err != nil {
		return err
	}
	defer local.Close()
	return r.verify(path, local, from.before.Size())
}

// verifyLocal compares what was stored here with what the host has.
func (r *run) verifyLocal(t *localTarget, size int64) error {
	if !r.Options.Verify {
		return nil
	}
	name := t.name
	if t.temporary != "" {
		name = t.temporary
	}
	local, err := t.root.Open(name)
	if err != nil {
		return err
	}
	defer local.Close()
	return r.verify(r.Source, local, size)
}

// verify compares a file on the host with a local one: by the host's hash where it offers one, else by reading all of it, as far as the
// host lets files be read twice.
func (r *run) verify(path string, local io.ReaderAt, size int64) error {
	client := r.Host.Client
	f, err := client.OpenRead(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if size > 0 {
		if same, told := r.sameHash(f, local, size); told {
			if !same || f.AttrsCached() && f.Size() != size {
				return ErrVerify
			}
			r.result.Verified = VerifiedByHash
			return nil
		}
	}
	if client.ReadsOnce() {
		return fmt.Errorf("%w: the host offers no hashes, and counts every time that a file is read", errors.ErrUnsupported)
	}
	equal := &comparer{at: local, size: size}
	n, err := r.readBack(f, equal, size)
	switch {
	case errors.Is(err, errDiffers), err == nil && n != size:
		return ErrVerify
	case err != nil:
		return err
	}
	r.result.Verified = VerifiedByReading
	return nil
}

// readBack reads a file over as many lanes as help.
func (r *run) readBack(f *usftp.File, equal *comparer, size int64) (int64, error) {
	if !r.worthStriping(size) {
		return f.WriteTo(equal)
	}
	s := r.stripe(f.Name(), os.O_RDONLY, size)
	defer s.stop()
	return f.WriteToAt(equal, &s.stripes)
}

// comparer is a writer that fails when what it is given differs from a local file.
type comparer struct {
	at     io.ReaderAt
	size   int64
	off    int64 // of the next Write
	buffer []byte
}

var errDiffers = errors.New("it differs from the source")

func (c *comparer) Write(p []byte) (int, error) {
	n, err := c.WriteAt(p, c.off)
	c.off += int64(n)
	return n, err
}

func (c *comparer) WriteAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > c.size {
		return 0, errDiffers
	}
	if cap(c.buffer) < len(p) {
		c.buffer = make([]byte, len(p))
	}
	got := c.buffer[:len(p)]
	n, err := c.at.ReadAt(got, off)
	switch {
	case n == len(p) && bytes.Equal(got, p):
		return n, nil
	case n == len(p) || err == io.EOF:
		return 0, errDiffers
	}
	return 0, err
}
