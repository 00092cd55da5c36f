package server

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"hash"
	"io"
	"math"
	"strings"

	"github.com/zeebo/blake3"

	"github.com/usftp/usftp/wire"
)

// hashes are the algorithms of check-file (draft-ietf-secsh-filexfer-extensions-00, section 3,
// except BLAKE3). The draft's md5 and sha1 serve clients that know nothing better; they do not
// protect against attackers.
var hashes = [...]struct {
	name string
	make func() hash.Hash
}{
	{wire.HashBLAKE3, func() hash.Hash { return blake3.New() }},
	{"sha256", sha256.New},
	{"sha512", sha512.New},
	{"sha384", sha512.New384},
	{"sha224", sha256.New224},
	{"sha1", sha1.New},
	{"md5", md5.New},
}

// hashNames lists the algorithms for [wire.ExtCheckFileAlgorithms].
func hashNames() string {
	var names []string
	for _, known := range hashes {
		names = append(names, known.name)
	}
	return strings.Join(names, ",")
}

// chooseHash returns the first known algorithm of a list.
func chooseHash(list string) (name string, h hash.Hash, err error) {
	for wanted := range strings.SplitSeq(list, ",") {
		for _, known := range hashes {
			if known.name == wanted {
				return wanted, known.make(), nil
			}
		}
	}
	return "", nil, &StatusError{Code: wire.OpUnsupported,
		Message: "unknown hash algorithm: " + list}
}

// minHashBlock is the smallest block size allowed (draft-ietf-secsh-filexfer-extensions-00, section
// 3).
const minHashBlock = 256

// checkFile returns the reply to check-file-handle and check-file-name.
func (s *session) checkFile(r *request) (reply wire.CheckFileReply, err error) {
	name, h, err := chooseHash(r.text)
	switch {
	case err != nil:
		return reply, err
	case r.blockSize != 0 && r.blockSize < minHashBlock:
		return reply, &StatusError{Code: wire.BadMessage, Message: "the block size is below 256 bytes"}
	case r.offset > math.MaxInt64:
		return reply, errOffset
	}
	if r.shortName { // paramiko, which knows no other name, expects it in the reply
		reply.Name = wire.ExtCheckFile
	}
	if reply.Algorithm, reply.Hashes, err = r.knownHash(); !errors.Is(err, errors.ErrUnsupported) {
		return reply, err
	}
	source, closeSource, err := s.hashSource(r)
	if err != nil {
		return reply, err
	}
	defer closeSource()
	reply.Algorithm = name
	reply.Hashes, err = s.hashBlocks(source, h, r)
	return reply, err
}

// knownHash returns the hash that an open file knows of a range, by the first listed algorithm for
// which it knows one.
func (r *request) knownHash() (algorithm string, sum []byte, err error) {
	err = errors.ErrUnsupported
	if r.handle == nil || r.blockSize != 0 || r.handle.flags&wire.OpenRead == 0 ||
		r.length > math.MaxInt64-r.offset {
		return "", nil, err
	}
	hasher, ok := r.handle.file.(FileHasher)
	if !ok {
		return "", nil, err
	}
	for algorithm := range strings.SplitSeq(r.text, ",") {
		sum, err = hasher.Hash(algorithm, int64(r.offset), int64(r.length))
		if !errors.Is(err, errors.ErrUnsupported) {
			return algorithm, sum, err
		}
	}
	return "", nil, err
}

// readable is a file that can be read.
type readable interface {
	File
	io.ReaderAt
}

// hashSource returns the file to hash.
func (s *session) hashSource(r *request) (source readable, closeSource func(), err error) {
	if r.handle != nil {
		if r.handle.readerAt == nil {
			return nil, nil, errBadHandle
		}
		return r.handle.file.(readable), func() {}, nil
	}
	end, err := s.beginLong(r)
	if err != nil {
		return nil, nil, err
	}
	file, err := func() (File, error) {
		defer end()
		return s.view.open(s.ctx, r.path, wire.OpenRead, wire.Attrs{})
	}()
	if err != nil {
		return nil, nil, err
	}
	source, ok := file.(readable)
	if err = permitOn(file, opCheckFileName, 0); err == nil && !ok {
		err = errUnsupported
	}
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	return source, func() { file.Close() }, nil
}

// maxHashes is the number of bytes of hashes that fit in a reply.
const maxHashes = wire.MaxPacket - 1024

// maxHashed limits the bytes that one request hashes. A hole takes no disk space, but as long to
// hash as data.
const maxHashed = 1 << 40

var errLongHash = &StatusError{Code: wire.Failure,
	Message: "more than 1 TiB cannot be hashed at once: ask for parts"}

var errManyHashes = &StatusError{Code: wire.Failure, Message: "more hashes than fit into a reply"}

// hashBlocks hashes a range block by block, or as one. It reads into the buffer in which the reply
// is built afterwards.
func (s *session) hashBlocks(source readable, h hash.Hash, r *request) ([]byte, error) {
	left := r.length
	if left == 0 || left > math.MaxInt64-r.offset {
		left = math.MaxInt64 - r.offset
	}
	expected := left
	if info, err := s.view.statOpen(s.ctx, source, r.about()); err == nil {
		expected = min(left, uint64(max(0, info.Size()-int64(r.offset))))
	}
	if expected > maxHashed {
		return nil, errLongHash
	}
	left = min(left, maxHashed) // more than expected of a file that grows, or has no size, as in /proc
	block := uint64(r.blockSize)
	if block == 0 {
		block = math.MaxInt64
	} else if r.length != 0 && r.length/block*uint64(h.Size()) > maxHashes {
		return nil, errManyHashes
	}
	var sums []byte
	offset := int64(r.offset)
	for left > 0 || len(sums) == 0 {
		n, err := s.hashOne(source, h, offset, min(left, block), r)
		if err != nil && err != io.EOF {
			return nil, err
		}
		// An empty range has one hash, of no bytes; beyond the end of the file there are no blocks.
		if n > 0 || len(sums) == 0 {
			if len(sums)+h.Size() > maxHashes {
				return nil, errManyHashes
			}
			sums = h.Sum(sums)
		}
		if err == io.EOF {
			break
		}
		h.Reset()
		offset += n
		left -= uint64(n)
	}
	return sums, nil
}

// hashOne feeds length bytes at offset to h. The error is io.EOF if the file ends before that.
func (s *session) hashOne(source io.ReaderAt, h hash.Hash, offset int64, length uint64,
	r *request) (done int64, err error) {
	buf := r.reply.Bytes()
	for uint64(done) < length {
		if err := s.ctx.Err(); err != nil {
			return done, err
		}
		n, err := readAt(source, buf[:min(length-uint64(done), uint64(len(buf)))], offset+done)
		if err := s.costly.begin(s.ctx, s.view.user, r); err != nil {
			return done, err
		}
		h.Write(buf[:n])
		s.costly.end()
		done += int64(n)
		if err != nil {
			return done, err
		}
		if n == 0 {
			return done, io.ErrNoProgress
		}
	}
	return done, nil
}
