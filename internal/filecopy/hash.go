package filecopy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"runtime"
	"slices"
	"sync"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/checksum"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/hashpipe"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/internal/private/pools"
)

const (
	// hashPiece is how much of a file the host hashes per request, so that no answer takes long and
	// a stuck server can be told from a busy one.
	hashPiece = 64 << 20

	// wholePiece replaces hashPiece if the hash of the whole file is wanted too. A file of one piece
	// needs no second digest, and hashing it takes the host only seconds.
	wholePiece = 1 << 30
)

// newDigests returns a file's digests: of the whole file for the user, and of pieces to verify with
// a host. size is -1 if unknown.
func newDigests(c *Copy, size int64) (all hashpipe.Digests) {
	wanted := c.Options.Hash
	if wanted != "" {
		all = append(all, checksum.NewDigest(wanted, 0))
	}
	s := c.main().prover()
	if !c.verifies() || s.session == nil { // on this machine bytes are compared
		return all
	}
	algorithm, piece := s.checkAlgorithm(wanted), int64(hashPiece)
	if c.delta != nil {
		algorithm = c.delta.algorithm
	}
	if wanted == algorithm {
		piece = wholePiece
		if size >= 0 && size <= piece {
			return all
		}
	}
	return append(all, checksum.NewDigest(algorithm, piece))
}

// fastest returns the fastest algorithm on this processor: the linked BLAKE3 is vectorized for
// x86-64 only, and other processors have instructions for SHA-256.
func fastest() checksum.Algorithm {
	if runtime.GOARCH == "amd64" {
		return checksum.BLAKE3
	}
	return checksum.SHA256
}

// checkAlgorithm chooses the hash that verifies the host's file: the one computed anyway if the
// host may know it, else the fastest if the host announces it, else SHA-256.
func (s prover) checkAlgorithm(wanted checksum.Algorithm) checksum.Algorithm {
	known := s.client.CheckFileAlgorithms()
	has := func(a checksum.Algorithm) bool { return slices.Contains(known, hostName(a)) }
	switch {
	case !s.client.HasCheckFile():
		if wanted != "" {
			return wanted
		}
		return fastest() // data read back is hashed here
	case wanted != "" && has(wanted), wanted == checksum.SHA256:
		return wanted
	case has(fastest()):
		return fastest()
	}
	return checksum.SHA256
}

// hostName returns an algorithm's name in the check-file extension.
func hostName(a checksum.Algorithm) string {
	if a == checksum.BLAKE3 {
		return usftp.AlgorithmBLAKE3
	}
	return string(a)
}

// hashing is the state of a file's hash.
type hashing struct {
	pipe     *hashpipe.Pipe   // while a large file is in progress
	digests  hashpipe.Digests // of everything that was copied
	hash     checksum.Hash
	verified Verification
}

// start begins to hash the data as it passes, after the bytes that an earlier run copied. local
// rereads the file; it is nil if that is impossible.
func (h *hashing) start(c *Copy, local reopen) {
	h.stop()
	if local != nil {
		local = interruptible(c.Ctx, local)
	}
	h.pipe = hashpipe.New(newDigests(c, c.Size), c.Result.Resumed, local, c.pipeBuffers())
}

func (r *Run) pipeBuffers() *sync.Pool {
	if r.Budget == nil {
		return nil
	}
	return &r.Budget.buffers.pipe
}

func (h *hashing) stop() {
	h.pipe.Stop()
	h.pipe = nil
}

// small hashes a file held in memory, on the worker that copies it: many run side by side.
func (h *hashing) small(c *Copy, data []byte) {
	h.digests = newDigests(c, int64(len(data)))
	h.digests.Write(data)
	h.digests.Finish()
}

// finish completes the hash and compares it with the list.
func (h *hashing) finish(c *Copy) error {
	if err := h.complete(c); err != nil {
		return err
	}
	return h.checkList(c)
}

// complete waits until everything is hashed.
func (h *hashing) complete(c *Copy) error {
	if p := h.pipe; p != nil {
		c.enters(Hashing)
		defer c.settles()
		defer c.checks(p.Progress)()
		if err := p.Finish(c.Result.Bytes); err != nil {
			return fmt.Errorf("what was copied cannot be hashed: %w", err)
		}
		h.digests, h.pipe = p.Digests(), nil
	}
	if c.Options.Hash != "" {
		h.hash = h.digests.Whole()
	}
	return nil
}

// checkList compares the hash with the list. A file that is not listed is reported but does not
// fail: a list seldom contains itself.
func (h *hashing) checkList(c *Copy) error {
	if c.Options.List == nil {
		return nil
	}
	for _, name := range listNames(c) {
		if listed, err := c.Options.List.Check(name, h.hash); listed {
			return err
		}
	}
	c.Warn("not in the list of hashes")
	return nil
}

// meetList marks a failed file as seen, so that it is not reported as missing as well.
func (h *hashing) meetList(c *Copy) {
	for _, name := range listNames(c) {
		if listed, _, _ := c.Options.List.Find(name); listed {
			return
		}
	}
}

// listNames returns the names by which a list may know the file, the likeliest first: its path
// below the directory named as the target, below the source, or below the source's parent, as in a
// list made when the source was copied there.
func listNames(c *Copy) []string {
	base := c.Src.Base(c.Src.Join(c.SourcePath, ""))
	if c.Listed == nil {
		return []string{c.ListName, base}
	}
	return []string{c.ListName, c.Rel, path.Join(base, c.Rel)}
}

// keptSame reports whether an existing file need not be copied, judging by its hash if the list or
// the host knows it.
func (h *hashing) keptSame(c *Copy, in *input, out *output) bool {
	local := out.rereads(c, in)
	if local == nil {
		return false
	}
	defer h.stop()
	err := h.reread(c, c.Listed.Size, local)
	if err == nil {
		err = h.checkList(c)
	}
	if err != nil {
		h.hash = checksum.Hash{}
		return false
	}
	if !c.verifies() {
		return true
	}
	same, known := out.holds(c)
	return same || !known
}

// keptOther hashes a target that Options.Update keeps, whose contents need not be its source's, and
// compares it with the list.
func (h *hashing) keptOther(c *Copy, out *output) (err error) {
	if c.Options.Hash == "" {
		return nil
	}
	size := out.info.Size()
	if c.to != nil {
		_, err = c.to.prover().sum(c, out.name, size)
	} else {
		defer h.stop()
		if err = h.reread(c, size, onDisk{out}.stored); errors.Is(err, io.ErrUnexpectedEOF) {
			err = errDiffers
		}
	}
	h.verified, c.Result.Bytes = 0, 0
	if errors.Is(err, errDiffers) {
		err = errChanging
	}
	if err == nil {
		err = h.checkList(c)
	}
	if err != nil {
		h.hash = checksum.Hash{}
		c.Result.Detail = "the target, which is not older than the source, is kept"
	}
	return err
}

// reread hashes a file of the given size that is not being copied.
func (h *hashing) reread(c *Copy, size int64, local reopen) error {
	if !c.Budget.IsSmall(size) {
		h.pipe = hashpipe.New(newDigests(c, size), size, interruptible(c.Ctx, local),
			c.pipeBuffers())
		c.Result.Bytes = size
		defer func() { c.Result.Bytes = 0 }()
		defer c.Report(h.pipe.Progress)()
		return h.complete(c)
	}
	file, err := local()
	if err != nil {
		return err
	}
	defer file.Close()
	budget := c.Budget
	budget.memory.take(size)
	defer budget.memory.give(size)
	data, release := budget.buffers.get(int(size))
	defer release()
	if n, err := file.ReadAt(data, 0); n < len(data) {
		if err == io.EOF {
			err = errDiffers
		}
		return err
	}
	h.small(c, data)
	return h.complete(c)
}

// interruptible makes reads of a file stop when ctx ends.
func interruptible(ctx context.Context, open reopen) reopen {
	return func() (endpoint.ReadAtCloser, error) {
		file, err := open()
		return interruptibleAt{ctx, file}, err
	}
}

type interruptibleAt struct {
	ctx context.Context
	endpoint.ReadAtCloser
}

func (r interruptibleAt) ReadAt(p []byte, off int64) (int, error) {
	if r.ctx.Err() != nil {
		return 0, interruption(r.ctx)
	}
	return r.ReadAtCloser.ReadAt(p, off)
}

var (
	errChanging = errors.New("being written to: its size or time changed while it was read")
	errReadOnce = fmt.Errorf(
		"%w: it cannot be verified: the host does not hash files and counts every read",
		errors.ErrUnsupported)
)

// SumOnce makes one attempt to hash a file that is not copied.
func SumOnce(c *Copy) error {
	defer c.ends.connect(c)()
	defer c.hashing.stop()
	return endpoint.OfSource(c.hashing.sum(c))
}

// CheckOnce makes one attempt to compare a file with the list.
func CheckOnce(c *Copy) error {
	if err := SumOnce(c); err != nil {
		return err
	}
	return c.hashing.checkList(c)
}

// sum computes the hash of a file that is not copied: on the host if possible, else by reading it.
func (h *hashing) sum(c *Copy) (err error) {
	c.Size = c.Listed.Size
	if c.from != nil {
		c.Size, err = c.from.prover().sum(c, c.Source, c.Size)
	} else {
		err = h.sumHere(c)
	}
	if errors.Is(err, errDiffers) {
		return errChanging
	}
	return err
}

// sumHere hashes a file on this machine.
func (h *hashing) sumHere(c *Copy) error {
	in, err := openInput(c)
	defer in.close()
	if err == nil {
		err = in.ready()
	}
	if err != nil {
		return err
	}
	f := in.info()
	if !f.Mode.IsRegular() {
		return errChanging
	}
	c.Size = f.Size
	err = h.reread(c, c.Size, in.reopen())
	if errors.Is(err, io.ErrUnexpectedEOF) || in.unchanged(c.Size, nil) != nil {
		return errChanging
	}
	h.verified, c.Result.Bytes = ByReading, c.Size
	return err
}

// sum lets the host hash a file, or reads it. now is its size.
func (s prover) sum(c *Copy, name string, size int64) (now int64, err error) {
	wanted := c.Options.Hash
	known := s.client.CheckFileAlgorithms()
	if known == nil || slices.Contains(known, hostName(wanted)) {
		theirs := s.hashes(name, nil, usftp.CheckFile{Algorithms: []string{hostName(wanted)}})
		if theirs != nil && len(theirs.Hashes) == 1 {
			c.hashing.hash = checksum.Hash{Algorithm: wanted, Sum: theirs.Hashes[0]}
			c.hashing.verified, c.Result.Bytes = ByHash, max(0, size)
			return size, nil
		}
	}
	if private.OfClient(s.client).ReadsOnce() { // it hashes, but not by the list's algorithm
		return size, errReadOnce
	}
	sum := checksum.NewDigest(wanted, 0)
	err = endpoint.ErrNotListed
	if c.IsSmall() && c.Budget.IsSmall(size) {
		err = s.hashSmall(c, name, size, sum)
	}
	if err == endpoint.ErrNotListed {
		sum, size, err = s.sumLarge(c, name, size)
	}
	if err == nil {
		c.hashing.hash = checksum.Hash{Algorithm: wanted, Sum: sum.Sums[0]}
		c.hashing.verified, c.Result.Bytes = ByReading, max(0, size)
	}
	return size, err
}

func (s prover) sumLarge(c *Copy, name string, size int64) (*checksum.Digest, int64, error) {
	f, err := s.client.OpenRead(name)
	if err != nil {
		return nil, size, err
	}
	defer f.Close()
	if f.AttrsCached() && f.FileStat().HasSize() { // newer than the listing
		size = int64(f.FileStat().Size)
		name = fmt.Sprint(name, " ", size, " ", f.FileStat().Mtime)
	} else {
		c.known.again = reread{} // nothing shows that it is still the same file
	}
	sum := c.known.again.of(name, c.Options.Hash, 0)
	from := c.known.again.done
	defer c.watch(func() int64 { return from + f.Progress() })()
	return sum, size, s.hashLarge(c, f, size)
}

// Verifiable fails, before anything is copied, if nothing can be verified on the host.
func Verifiable(client *usftp.Client) error {
	if private.OfClient(client).ReadsOnce() && !client.HasCheckFile() {
		return errReadOnce
	}
	return nil
}

// hashes returns the host's hashes of a file, nil if it has none.
func (s prover) hashes(name string, f *usftp.File,
	what usftp.CheckFile) (theirs *usftp.FileHashes) {
	if !s.client.HasCheckFile() {
		return nil
	}
	err := errors.ErrUnsupported
	if f != nil {
		theirs, err = f.CheckFile(what)
	}
	if errors.Is(err, errors.ErrUnsupported) {
		theirs, err = s.client.CheckFile(name, what)
	}
	if err != nil || theirs.Algorithm != what.Algorithms[0] {
		return nil
	}
	return theirs
}

// A reread is a file on a host that is read again. Bytes read before the connection was lost are
// not read again by the next attempt, and count as progress.
type reread struct {
	name     string           // the file; the next attempt must mean the same
	done     int64            // bytes from the beginning
	sum      *checksum.Digest // of these bytes, nil if they are compared instead
	progress pools.Progress
}

// of starts rereading name, or continues it, and returns its digest.
func (r *reread) of(name string, algorithm checksum.Algorithm, piece int64) *checksum.Digest {
	if r.name != name || r.sum == nil || r.sum.Algorithm != algorithm || r.sum.Piece != piece {
		*r = reread{name: name, sum: checksum.NewDigest(algorithm, piece)}
	}
	return r.sum
}

// read hashes the data that copy writes to w: the file from off on.
func (r *reread) read(c *Copy, s *session,
	copy func(w io.Writer, off int64) (int64, error)) error {
	pipe := hashpipe.New(hashpipe.Digests{r.sum}, 0, nil, c.pipeBuffers())
	from := r.done
	position := func() int64 { return from + pipe.Progress() }
	defer pools.OfConn(s.conn).Follow(&r.progress, position)()
	defer c.checks(position)()
	_, err := copy(pipe.Writer(c.Limiter.Writer(io.Discard), 0), from)
	r.done += pipe.Drain()
	return err
}

// hashLarge hashes the rest of the file that c.known.again describes. It fails if the file's
// size differs; a size below 0 accepts any.
func (s prover) hashLarge(c *Copy, f *usftp.File, size int64) error {
	r := &c.known.again
	err := r.read(c, s.session, func(w io.Writer, off int64) (int64, error) {
		if size >= 0 {
			w = &atMost{w, size - off}
		}
		if _, err := f.Seek(off, io.SeekStart); err != nil {
			return 0, err
		}
		return f.WriteTo(w)
	})
	if err == nil && size >= 0 && r.done != size {
		err = errDiffers
	}
	if err == nil {
		r.sum.Finish()
	}
	return err
}

// hashSmall hashes a file read in one piece, in two round trips. The error is endpoint.ErrNotListed
// if its size differs.
func (s prover) hashSmall(c *Copy, name string, size int64, into *checksum.Digest) error {
	file := &small{budget: c.Budget, size: size, takes: true}
	defer file.release()
	err := file.read(c.Ctx, endpoint.OnHost{Host: &s.host}, name, 0, &endpoint.Info{Size: size})
	if err == nil {
		err = c.Limiter.Wait(len(file.data))
	}
	if err == nil {
		into.Write(file.data)
		into.Finish()
	}
	return err
}

// atMost is a writer that refuses more than a number of bytes.
type atMost struct {
	io.Writer
	left int64
}

func (a *atMost) Write(p []byte) (int, error) {
	if a.left -= int64(len(p)); a.left < 0 {
		return 0, errDiffers
	}
	return a.Writer.Write(p)
}
