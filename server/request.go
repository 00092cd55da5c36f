package server

import (
	"strings"

	"github.com/usftp/usftp/internal/buffer"
	"github.com/usftp/usftp/wire"
)

const (
	// maxPath is the longest path accepted, as on Linux.
	maxPath = 4096

	// maxIDs limits the numbers in each list of a users-groups-by-id request, so that the reply
	// fits in a packet.
	maxIDs = 4096
)

// request is one request from its arrival to its reply.
type request struct {
	op   operation
	id   uint32
	seq  uint64 // order of arrival
	turn uint64 // order of arrival on handle
	bad  error  // found while parsing

	handle, target   *handle // target is where copy-data writes
	key, targetKey   uint32  // the client's handles for them
	path, path2      string
	place, place2    string   // the paths' places in the order of requests
	beneath          *beneath // set if no link may be followed beneath a directory
	text             string   // a list of algorithms, a user's name, a link's target
	flags            uint32
	blockSize        uint32 // of check-file, or the shortest length of chunks
	length           uint64
	offset, toOffset uint64
	attrs            wire.Attrs
	uids, gids       []uint32
	data             []byte        // contents for WRITE; lies in own, or in the reader's input
	own              *buffer.Block // the buffer that the packet came in

	reply     *buffer.Block // lent before the request starts, if the reply needs one
	charge    int           // reply's share of the session's budget
	changes   bool          // it makes a change that a request on the path could see
	running   bool
	shortName bool     // the extension was called check-file
	wrote     bool     // all of data has been written
	repeated  bool     // fails like an earlier one on its handle, already logged
	next      *request // in the session's list of spare requests
}

// parse fills in r from a packet's body. Paths become absolute, and clean unless the backend walks
// paths.
func (r *request) parse(v *View, draft bool, body []byte) error {
	in := wire.NewReader(body)
	switch r.op {
	case opOpen:
		r.path, r.flags = r.readPath(v, &in), openFlags(in.Uint32())
		in.ReadAttrs(&r.attrs)
		r.changes = r.flags&(wire.OpenCreate|wire.OpenTruncate) != 0
	case opRead:
		r.key, r.offset = r.readKey(&in), in.Uint64()
		r.length = uint64(min(in.Uint32(), wire.MaxData))
		r.charge = bufferSize(wire.DataHeaderSize + int(r.length))
	case opWrite:
		r.key, r.offset, r.data = r.readKey(&in), in.Uint64(), in.Bytes()
		r.length, r.changes = uint64(len(r.data)), true
	case opClose, opReaddir, opFstat:
		r.key = r.readKey(&in)
	case opFsetstat:
		r.key = r.readKey(&in)
		in.ReadAttrs(&r.attrs)
		r.changes = true
	case opLstat, opStat, opOpendir, opReadlink:
		r.path = r.readPath(v, &in)
	case opRealpath:
		r.path = v.Path(r.readName(&in)) // "" means the directory at which relative paths start
	case opRemove, opRmdir:
		r.path, r.changes = r.readPath(v, &in), true
	case opMkdir, opSetstat:
		r.path, r.changes = r.readPath(v, &in), true
		in.ReadAttrs(&r.attrs)
	case opRename:
		r.path, r.path2, r.changes = r.readPath(v, &in), r.readPath(v, &in), true
	case opSymlink:
		// OpenSSH sends the target first, contrary to draft-02, section 6.10, and most others
		// follow it (PROTOCOL, section 4.1).
		if r.changes = true; draft && r.beneath == nil {
			r.path, r.text = r.readPath(v, &in), r.readName(&in)
		} else {
			r.text, r.path = r.readName(&in), r.readPath(v, &in)
		}
	default:
		r.parseExtension(v, &in)
	}
	switch r.op {
	case opReaddir, opReadlink, opRealpath, opExpandPath, opHomeDirectory:
		r.charge = smallBuffer
	}
	if !r.op.onFiles() {
		r.place, r.place2 = placeOf(r.path), placeOf(r.path2)
	}
	if in.Err() != nil {
		return &StatusError{Code: wire.BadMessage, Message: in.Err().Error()}
	}
	return r.bad
}

// parseExtension parses the payload of an extended request.
func (r *request) parseExtension(v *View, in *wire.Reader) {
	switch r.op {
	case opPosixRename, opHardlink:
		r.path, r.path2, r.changes = r.readPath(v, in), r.readPath(v, in), true
	case opStatVFS, opUploads:
		r.path = r.readPath(v, in)
	case opLsetstat:
		r.path, r.changes = r.readPath(v, in), true
		in.ReadAttrs(&r.attrs)
	case opFstatVFS, opFsync, opAbandon:
		r.key = r.readKey(in)
	case opExpandPath, opHomeDirectory:
		r.text = r.readName(in)
	case opCopyData:
		r.key, r.offset, r.length = r.readKey(in), in.Uint64(), in.Uint64()
		r.targetKey, r.toOffset = r.readKey(in), in.Uint64()
		r.changes, r.charge = true, largeBuffer
	case opUsersGroups:
		var ids wire.UsersGroupsByID
		if ids.Parse(in.Rest()) != nil || max(len(ids.UIDs), len(ids.GIDs)) > maxIDs {
			r.bad = errBadMessage
		}
		r.uids, r.gids = ids.UIDs, ids.GIDs
		r.charge = largeBuffer
	case opCheckFileHandle, opCheckFileName:
		if r.op == opCheckFileHandle {
			r.key = r.readKey(in)
		} else {
			r.path = r.readPath(v, in)
		}
		r.text = r.readName(in)
		r.offset, r.length, r.blockSize = in.Uint64(), in.Uint64(), in.Uint32()
		r.charge = largeBuffer
	case opChunks:
		r.key, r.text = r.readKey(in), r.readName(in)
		r.offset, r.length, r.blockSize = in.Uint64(), in.Uint64(), in.Uint32()
		r.charge = largeBuffer
	case opPutFiles, opGetFiles:
		r.parseFiles(v, in)
	}
}

func (r *request) readPath(v *View, in *wire.Reader) string {
	return r.checkPath(v, r.readName(in))
}

// checkPath checks a path, and makes it absolute.
func (r *request) checkPath(v *View, name string) string {
	if r.beneath != nil && r.bad == nil {
		r.bad = r.beneath.check(v, name)
	}
	if name == "" && r.bad == nil {
		r.bad = errNoName
	}
	return v.Path(name)
}

// readName reads a string, and refuses a long one or one with a NUL, which backends would take for
// its end.
func (r *request) readName(in *wire.Reader) string {
	name := in.Bytes()
	if len(name) > maxPath {
		r.bad = errLongPath
		return ""
	}
	return r.checkName(string(name))
}

func (r *request) checkName(name string) string {
	switch {
	case len(name) > maxPath:
		r.bad = errLongPath
		return ""
	case strings.IndexByte(name, 0) >= 0:
		r.bad = errNulPath
		return ""
	}
	return name
}

func (r *request) readKey(in *wire.Reader) uint32 { return parseKey(in.Bytes()) }
