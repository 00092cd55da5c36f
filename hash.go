package usftp

import (
	"bytes"
	"fmt"
	"io/fs"
	"math"
	"strings"

	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/wire"
)

// AlgorithmBLAKE3 is the name under which usftp's own servers offer BLAKE3 with a 32-byte hash; the
// draft defines none.
const AlgorithmBLAKE3 = wire.HashBLAKE3

// CheckFile selects the bytes to hash (draft-ietf-secsh-filexfer-extensions-00, section 3).
type CheckFile struct {
	// Algorithms are names in order of preference: "sha256", "sha512", "sha384", "sha224", "sha1",
	// "md5", "crc32"; usftp's own servers also have "blake3@usftp". nil means sha256 first and then
	// the others of the draft.
	Algorithms []string
	Offset     int64
	Length     int64 // in bytes; 0, or more than the file has, means to the end
	BlockSize  int   // bytes per hash, at least 256; 0 means one hash of everything
}

// FileHashes are hashes taken by a server.
type FileHashes struct {
	Algorithm string // the algorithm that the server chose
	// one per block, of which the last may be shorter; or one of everything
	Hashes [][]byte
}

// hashSizes are the lengths of hashes in bytes.
var hashSizes = map[string]int{"crc32": 4, "md5": 16, "sha1": 20, "sha224": 28, "sha256": 32,
	"sha384": 48, "sha512": 64, wire.HashBLAKE3: 32}

// leastBlock is the smallest block that the draft allows.
const leastBlock = 256

// HasCheckFile reports whether the server offers to hash files.
func (c *Client) HasCheckFile() bool {
	return c.checkRequest(wire.ExtCheckFileName) != "" ||
		c.checkRequest(wire.ExtCheckFileHandle) != ""
}

// CheckFileAlgorithms returns the algorithms that the server says it has, or nil if it does not
// say: most servers with check-file do not say, and have sha256.
func (c *Client) CheckFileAlgorithms() []string {
	list, told := c.offers[wire.ExtCheckFileAlgorithms]
	if !told {
		list = c.offers[wire.ExtCheckFile] // Paramiko's
		if list == "1" {
			list = ""
		}
	}
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

// checkRequest returns the request with which this server hashes a file, given the one for open
// files or the one for names, or "" if it has none. See [wire.ExtCheckFile].
func (s *session) checkRequest(request string) string {
	_, offered := s.offers[request]
	data, all := s.offers[wire.ExtCheckFile]
	switch {
	case offered, all && (data == "" || data == "1"):
		return request
	case all && request == wire.ExtCheckFileHandle: // Paramiko
		return wire.ExtCheckFile
	}
	return ""
}

// CheckFile makes the server hash a file, or blocks of it. It needs the extension check-file under
// any of its names; without it the error matches [errors.ErrUnsupported], and with numbers out of
// range [fs.ErrInvalid]. It takes one round trip, or two on servers that only hash open files; with
// a block size, one for every 64 MiB, and more if the file's size is needed.
func (c *Client) CheckFile(name string, what CheckFile) (*FileHashes, error) {
	request := c.checkRequest(wire.ExtCheckFileName)
	switch {
	case !c.HasCheckFile():
		return nil, &fs.PathError{Op: "check-file", Path: name,
			Err: &unsupported{wire.ExtCheckFile}}
	case request == "":
		f, err := c.OpenRead(name) // which does not wait for the writer of a named pipe
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return f.CheckFile(what)
	}
	return checkPieces(what, func() (fs.FileInfo, error) { return c.Stat(name) },
		func(piece CheckFile) (*FileHashes, error) {
			return run(c.ctx, c.checkFile(request, name, []byte(name), piece))
		})
}

// CheckFile makes the server hash the open file, or blocks of it; see [Client.CheckFile].
func (f *File) CheckFile(what CheckFile) (*FileHashes, error) {
	open, err := f.opened("check-file", 0)
	if err != nil {
		return nil, err
	}
	request := open.client.checkRequest(wire.ExtCheckFileHandle)
	if request == "" {
		return nil, f.wrap("check-file", &unsupported{wire.ExtCheckFile})
	}
	return checkPieces(what, f.Stat, func(piece CheckFile) (*FileHashes, error) {
		return run(f.ctx, open.client.checkFile(request, f.Name(), open.handle.Name,
			piece).on(open.handle))
	})
}

// mostBlocks keeps the answer within 256 KiB, the largest packet of OpenSSH and many others.
const mostBlocks = 2048

// checkPieces asks for blocks in pieces of at most 64 MiB, so that no answer takes long. It calls
// stat if the length is not known or may be beyond the end of the file.
func checkPieces(what CheckFile, stat func() (fs.FileInfo, error),
	ask func(CheckFile) (*FileHashes, error)) (*FileHashes, error) {
	if what.BlockSize < leastBlock || what.Length < 0 { // all in one, or an error
		return ask(what)
	}
	most := int64(max(1, min(copyPiece/what.BlockSize, mostBlocks))) * int64(what.BlockSize)
	if what.Length == 0 || what.Length > most {
		left, err := leftOf(what, stat)
		if err != nil {
			return nil, err
		}
		if left <= 0 {
			return ask(what)
		}
		what.Length = left
	}
	all := &FileHashes{}
	for rest := what.Length; rest > 0; {
		piece := what
		piece.Length = min(most, rest)
		hashes, err := piece.askAll(ask)
		if err != nil {
			// The file may end before the range does, which not every server takes.
			left, statErr := leftOf(piece, stat)
			if statErr != nil || left <= 0 || left >= piece.Length {
				return nil, err
			}
			piece.Length, rest = left, left
			if hashes, err = piece.askAll(ask); err != nil {
				return nil, err
			}
		}
		all.Algorithm = hashes.Algorithm
		all.Hashes = append(all.Hashes, hashes.Hashes...)
		what.Algorithms = []string{hashes.Algorithm}
		what.Offset += piece.Length
		rest -= piece.Length
	}
	return all, nil
}

// leftOf returns how many of the bytes the file has. Without a size it returns the length.
func leftOf(what CheckFile, stat func() (fs.FileInfo, error)) (int64, error) {
	info, err := stat()
	if err != nil || !info.Sys().(*FileStat).HasSize() {
		return what.Length, err
	}
	left := info.Size() - what.Offset
	if what.Length > 0 {
		left = min(left, what.Length)
	}
	return left, nil
}

// askAll asks for the hashes of a range, all of which must come.
func (what CheckFile) askAll(ask func(CheckFile) (*FileHashes, error)) (*FileHashes, error) {
	hashes, err := ask(what)
	if err != nil {
		return nil, err
	}
	if want := what.blocks(); int64(len(hashes.Hashes)) != want {
		return nil, &ProtocolError{What: fmt.Sprintf("%d hashes of %d blocks",
			len(hashes.Hashes), want)}
	}
	return hashes, nil
}

// blocks returns how many hashes are wanted, or 0 if that depends on the size of the file.
func (what CheckFile) blocks() int64 {
	switch {
	case what.BlockSize == 0:
		return 1
	case what.Length == 0:
		return 0
	}
	return (what.Length-1)/int64(what.BlockSize) + 1
}

// checkFile returns one request for hashes.
func (s *session) checkFile(request, name string, target []byte,
	what CheckFile) operation[*FileHashes] {
	op := operation[*FileHashes]{session: s, name: "check-file", path: name}
	if what.Offset < 0 || what.Length < 0 || what.BlockSize < 0 ||
		what.BlockSize > 0 && what.BlockSize < leastBlock ||
		int64(what.BlockSize) > math.MaxUint32 {
		return op.fail(fs.ErrInvalid)
	}
	algorithms := what.Algorithms
	if algorithms == nil {
		algorithms = []string{"sha256", "sha512", "sha384", "sha224", "sha1", "md5", "crc32"}
	}
	message := wire.CheckFile{
		Name: request, Target: target, Algorithms: strings.Join(algorithms, ","),
		Offset: uint64(what.Offset), Length: uint64(what.Length), BlockSize: uint32(what.BlockSize),
	}
	return ask(s, "check-file", name, wire.TypeExtendedReply, message,
		func(call *conn.Call) (*FileHashes, error) {
			var reply wire.CheckFileReply
			if err := reply.Parse(call.Body); err != nil {
				return nil, parse(err)
			}
			return splitHashes(reply, what)
		})
}

// splitHashes splits the hashes in a reply.
func splitHashes(reply wire.CheckFileReply, what CheckFile) (*FileHashes, error) {
	hashes := &FileHashes{Algorithm: reply.Algorithm}
	size, known := hashSizes[reply.Algorithm]
	if !known {
		if what.BlockSize != 0 {
			return nil, &ProtocolError{What: fmt.Sprintf("hashes by %q, which was not requested",
				reply.Algorithm)}
		}
		size = len(reply.Hashes)
	}
	prefix := 0
	if n := what.blocks(); n > 0 && int64(len(reply.Hashes)) == n*int64(size+4) ||
		n == 0 && len(reply.Hashes)%max(size, 1) != 0 && len(reply.Hashes)%(size+4) == 0 {
		prefix = 4 // Apache MINA puts the length before each
	}
	rest := bytes.Clone(reply.Hashes)
	for len(rest) >= prefix+size && size > 0 {
		hashes.Hashes = append(hashes.Hashes, rest[prefix:prefix+size:prefix+size])
		rest = rest[prefix+size:]
	}
	if len(rest) > 0 || what.BlockSize == 0 && len(hashes.Hashes) != 1 {
		return nil, &ProtocolError{What: fmt.Sprintf("%d bytes of %s hashes", len(reply.Hashes),
			reply.Algorithm)}
	}
	return hashes, nil
}
