package transfer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"sync"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
)

// ErrVerify says that what was stored is not what was to be copied.
var ErrVerify = errors.New("what was stored differs from the source")

var errReadOnce = fmt.Errorf("%w: it cannot be verified: the host hashes no files, and counts every time that one is read", errors.ErrUnsupported)

// verifiable says, before anything is copied or read, that a host is one where nothing can be
// verified.
func verifiable(client *usftp.Client, o *Options) error {
	if o.Verify && client != nil && private.OfClient(client).ReadsOnce() && !client.HasCheckFile() {
		return errReadOnce
	}
	return nil
}

// reopen opens the file on this machine once more, for reading anywhere in it.
type reopen func() (file io.ReaderAt, free func(), err error)

// hashes tells whether anything is to be hashed.
func (r *run) hashes() bool { return r.Options.Hash != "" || r.Options.Verify }

// startHashing begins to hash what passes, behind what an earlier run has copied. local is nil
// where there is no file on this machine that could be read anywhere. It does nothing where no hash
// is wanted.
func (r *run) startHashing(local reopen) {
	r.stopHashing()
	if r.hashes() {
		r.passing = newPassing(r.newDigests(r.size), r.result.Resumed, local, r.passingPool())
	}
}

func (r *run) passingPool() *sync.Pool {
	if r.item == nil {
		return nil
	}
	return &r.item.dir.tree.buffers.passing
}

func (r *run) stopHashing() {
	r.passing.stop()
	r.passing = nil
}

// hashSmall hashes a file that is in memory as a whole. It runs where the file is copied: there are
// many of those side by side.
func (r *run) hashSmall(data []byte) {
	if r.hashes() {
		r.digests = r.newDigests(int64(len(data)))
		r.digests.write(data)
		r.digests.finish()
	}
}

// finishHashing waits until all that has passed is hashed, and compares it with what a list says.
func (r *run) finishHashing() error {
	if p := r.passing; p != nil {
		if err := p.finish(r.result.Bytes); err != nil {
			return fmt.Errorf("what has passed cannot be hashed: %w", err)
		}
		r.digests = p.digests
		r.passing = nil
	}
	if r.Options.Hash != "" {
		r.hash = r.digests.whole(r.Options.Hash)
	}
	return r.checkList()
}

// verify compares what the host has under a name with what has passed: by the host's hash where it
// offers one, else by reading all of it, as far as the host lets files be read twice. f is the file
// where it is open already, local as for startHashing.
func (r *run) verify(name string, f *usftp.File, local reopen) error {
	if !r.Options.Verify {
		return nil
	}
	r.takeHandle()
	if same, told := r.sameAtHost(name, f); told {
		if !same {
			return ErrVerify
		}
		r.verified = VerifiedByHash
		return nil
	}
	if private.OfClient(r.Host.Client).ReadsOnce() { // it has hashes, and not those that were wanted
		return errReadOnce
	}
	if err := r.readBack(name, f, local); err != nil {
		if errors.Is(err, errDiffers) {
			return ErrVerify
		}
		return err
	}
	r.verified = VerifiedByReading
	return nil
}

// sameAtHost has the host hash what it has, to the end, so that a file that is longer differs. Told
// is false where it cannot, or not by this algorithm. One round trip for what is hashed in one
// piece and by its name or an open handle; two more where the host must open it.
func (r *run) sameAtHost(name string, f *usftp.File) (same, told bool) {
	ours := r.digests.check()
	what := usftp.CheckFile{Algorithms: []string{ours.algorithm.atHost()}}
	if len(ours.sums) > 1 {
		what.BlockSize = int(ours.piece)
	}
	theirs := r.hashesAtHost(name, f, what)
	if theirs == nil {
		return false, false
	}
	return slices.EqualFunc(ours.sums, theirs.Hashes, bytes.Equal), true
}

// hashesAtHost has the host hash what it has under a name, f where it is open already; nil where it
// cannot.
func (r *run) hashesAtHost(name string, f *usftp.File,
	what usftp.CheckFile) (theirs *usftp.FileHashes) {
	if !r.Host.Client.HasCheckFile() {
		return nil
	}
	err := errors.ErrUnsupported
	if f != nil {
		theirs, err = f.CheckFile(what)
	}
	if errors.Is(err, errors.ErrUnsupported) {
		theirs, err = r.Host.Client.CheckFile(name, what)
	}
	if err != nil || theirs.Algorithm != what.Algorithms[0] {
		return nil
	}
	return theirs
}

// readBack reads what the host has, and hashes it like what has passed. A large file over a long
// link comes over several connections, in any order; it is compared with the file on this machine
// instead.
func (r *run) readBack(name string, f *usftp.File, local reopen) error {
	size := r.result.Bytes
	if f == nil && r.isSmall(size) {
		if err := r.readBackSmall(name); !errors.Is(err, private.ErrOtherSize) {
			return err
		}
	}
	if f == nil {
		opened, err := r.Host.Client.OpenRead(name)
		if err != nil {
			return err
		}
		defer opened.Close()
		f = opened
	} else if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if local != nil && r.worthStriping(size) {
		return r.compareBack(f, size, local)
	}
	ours := r.digests.check()
	theirs := newDigest(ours.algorithm, ours.piece)
	if err := r.hashThere(f, size, theirs); err != nil {
		return err
	}
	return sameSums(ours, theirs)
}

// hashThere reads all of a file of the host's, and hashes it. One that has another size differs;
// below 0 any will do.
func (r *run) hashThere(f *usftp.File, size int64, into *digest) error {
	most := size
	if size < 0 {
		most = math.MaxInt64
	}
	all := newPassing(digests{into}, 0, nil, r.passingPool())
	defer all.stop()
	n, err := f.WriteTo(&passingWriter{Writer: r.limitWriter(&bounded{left: most}), to: all})
	switch {
	case err != nil:
		return err
	case size >= 0 && n != size:
		return errDiffers
	}
	return all.finish(n)
}

// readBackSmall is readBack for a file that is read in one piece.
func (r *run) readBackSmall(name string) error {
	ours := r.digests.check()
	theirs := newDigest(ours.algorithm, ours.piece)
	if err := r.hashSmallThere(name, r.result.Bytes, theirs); err != nil {
		return err
	}
	return sameSums(ours, theirs)
}

// hashSmallThere is hashThere for a file that is read in one piece, in two round trips. The error
// is private.ErrOtherSize where it is larger or smaller.
func (r *run) hashSmallThere(name string, size int64, into *digest) error {
	f := usftp.NewFile(r.Host.Client, name)
	if err := f.OpenRead(); err != nil {
		return err
	}
	memory := r.item.dir.tree.memory
	memory.take(size)
	defer memory.give(size)
	data, release := r.item.dir.tree.buffers.get(int(size))
	defer release()
	if _, err := private.OfFile(f).ReadClose(len(data), func() []byte { return data }); err != nil {
		return err
	}
	if r.limiter != nil {
		if err := r.limiter.wait(len(data)); err != nil {
			return err
		}
	}
	into.write(data)
	into.finish()
	return nil
}

func sameSums(a, b *digest) error {
	if !slices.EqualFunc(a.sums, b.sums, bytes.Equal) {
		return errDiffers
	}
	return nil
}

// compareBack reads a file over as many lanes as help, and compares it with the one on this
// machine.
func (r *run) compareBack(f *usftp.File, size int64, local reopen) error {
	file, free, err := local()
	if err != nil {
		return err
	}
	defer free()
	s := r.stripe(f, os.O_RDONLY, size)
	defer s.stop()
	n, err := s.stripes.WriteToAt(&comparer{at: file, size: size})
	if err == nil && n != size {
		err = errDiffers
	}
	return err
}

// bounded is a sink that ends what is longer than it should be.
type bounded struct{ left int64 }

func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= int64(len(p)); b.left < 0 {
		return 0, errDiffers
	}
	return len(p), nil
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
