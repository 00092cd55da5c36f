package sftptest

import (
	"slices"
	"time"

	"github.com/usftp/usftp/wire"
)

// Script determines how a scripted server behaves. The zero value behaves like OpenSSH's
// sftp-server; each field changes one thing, and they combine. A Script must not be changed once a
// server uses it.
type Script struct {
	// Greeting is text sent before anything else, as a shell's startup file or a forced command may
	// print it.
	Greeting string
	// GreetingOnly closes the stream after the greeting, like "This account is not available.\n".
	GreetingOnly bool
	// Version is the version in VERSION. 0 means 3.
	Version uint32
	// Extensions are offered in VERSION and supported; others are answered OP_UNSUPPORTED. nil
	// means [OpenSSHExtensions], an empty slice means none.
	Extensions []wire.ExtensionPair
	// Limits are the reply to limits@openssh.com, and apply even if that is not offered: a longer
	// packet ends the connection, a longer READ is answered short, a longer WRITE and one handle
	// too many are refused with FAILURE. 0 in a field means no limit. nil means [OpenSSHLimits].
	Limits *wire.LimitsReply
	// Crowded refuses an OPEN for one handle too many. 0 means FAILURE.
	Crowded wire.Code
	// Home is the directory in which clients start. It is created. "" means the root.
	Home string

	// ShortReads limits the bytes that one READ returns. 0 means as much as Limits allow.
	ShortReads int
	// RandomReads makes the length of every DATA random, between 1 and its usual length.
	RandomReads bool
	// FalseEOFAt, if positive, is an offset at which READ answers EOF although the file continues:
	// a READ from before it is answered only up to it, a READ at it is answered EOF the first
	// FalseEOFTimes times, and a READ after it is answered as usual.
	FalseEOFAt int64
	// FalseEOFTimes is how often that happens for each handle. 0 means once.
	FalseEOFTimes int
	// SequentialReads refuses, with FAILURE, a READ that does not begin where the previous READ on
	// its handle ended.
	SequentialReads bool
	// ReadOnce makes a file vanish (NO_SUCH_FILE) for every OPEN after it was opened and READ, as
	// in the mailboxes of some data exchanges.
	ReadOnce bool

	// NoReadWrite refuses, with PERMISSION_DENIED, an OPEN for reading and writing.
	NoReadWrite bool
	// SequentialWrites refuses, with FAILURE, a WRITE that does not begin where the previous WRITE
	// on its handle ended or, if it is the first, at 0 or at the end of the file.
	SequentialWrites bool
	// OneWrite refuses, with FAILURE, a WRITE that arrives while another on its file is being
	// executed, which takes a millisecond.
	OneWrite bool
	// FullAt, if positive, is the offset beyond which no file can be written: the data before it is
	// stored, and the WRITE is answered FAILURE; from then on statvfs reports no free space, unless
	// StatVFS is set.
	FullAt int64
	// UploadPerHandle keeps data written to a handle for that handle alone until CLOSE replaces the
	// file, as servers in front of object stores do.
	UploadPerHandle bool
	// StatVFS is the reply to statvfs and fstatvfs. nil means a terabyte, half of it free.
	StatVFS *wire.StatVFSReply

	// ReaddirNames is how many names a NAME packet carries. 0 means 100; a number as large as the
	// directory yields a single packet of any length, as some servers send.
	ReaddirNames int
	// EndlessReaddir starts a listing over instead of ending it.
	EndlessReaddir bool

	// Refuse are request types answered OP_UNSUPPORTED, without being executed.
	Refuse []wire.Type
	// HideAttrs are attribute flags (wire.AttrSize and so on) left out of every reply.
	HideAttrs uint32
	// HideTypes leaves the type out of all permissions.
	HideTypes bool
	// BareLines leaves nothing but the name in the lines that listings have for people.
	BareLines bool
	// SlashedDirs adds a slash to the names of directories in listings.
	SlashedDirs bool
	// BareListings leaves all attributes out of listings, as the draft allows.
	BareListings bool
	// NoMessages leaves the message of every STATUS empty.
	NoMessages bool
	// BareStatus ends every STATUS after its code, as before draft-01.
	BareStatus bool
	// RichCodes answers with status codes of later drafts (FILE_ALREADY_EXISTS, DIR_NOT_EMPTY,
	// NO_SPACE_ON_FILESYSTEM, ...) where version 3 has FAILURE or NO_SUCH_FILE.
	RichCodes bool
	// DraftSymlink expects SYMLINK's paths in the draft's order, the link's own path first, where
	// OpenSSH has the target first.
	DraftSymlink bool
	// FollowLinks makes RENAME and posix-rename follow links in both names, and LSTAT links that are
	// not broken; READLINK answers with the place to which a link leads from the path in the request.
	// ProFTPD's mod_sftp does that.
	FollowLinks bool
	// HandleSize is the length of handles. 0 means 4; more than 256 breaks draft-02, section 6.3.
	HandleSize int
	// SharedHandles, if positive, is the number of different handles. When all are in use, the next
	// open file or directory also gets the last of them, which then means the newest open one, as with
	// the ssh_sftpd of Erlang/OTP (new_handle; there are two, usually).
	SharedHandles int

	// Reorder makes replies wait until this many are ready, or none has become ready for a
	// millisecond; then they are sent in random order.
	Reorder int
	// Work is the time that each request takes, one after the other.
	Work time.Duration
	// Seed is the source of all randomness. The same requests on the same stream get the same
	// replies.
	Seed uint64

	// Faults spoil chosen replies. All faults that match a request act on it, in order.
	Faults []Fault
	// Intercept, if not nil, is called for every request before it is executed, and the actions it
	// returns are applied before the Faults. It is called on the goroutine that serves the stream.
	Intercept func(Request) []Action
}

// OpenSSHExtensions returns the extensions of OpenSSH's sftp-server.
func OpenSSHExtensions() []wire.ExtensionPair {
	return []wire.ExtensionPair{
		{Name: wire.ExtPosixRename, Data: "1"},
		{Name: wire.ExtStatVFS, Data: "2"},
		{Name: wire.ExtFstatVFS, Data: "2"},
		{Name: wire.ExtHardlink, Data: "1"},
		{Name: wire.ExtFsync, Data: "1"},
		{Name: wire.ExtLsetstat, Data: "1"},
		{Name: wire.ExtLimits, Data: "1"},
		{Name: wire.ExtExpandPath, Data: "1"},
		{Name: wire.ExtCopyData, Data: "1"},
		{Name: wire.ExtHomeDirectory, Data: "1"},
		{Name: wire.ExtUsersGroupsByID, Data: "1"},
	}
}

// OpenSSHLimits returns OpenSSH's sftp-server's reply to limits@openssh.com if 1024 descriptors may
// be open.
func OpenSSHLimits() wire.LimitsReply {
	return wire.LimitsReply{MaxPacket: wire.MaxPacket, MaxRead: wire.MaxData,
		MaxWrite: wire.MaxData, MaxOpenHandles: 1019}
}

func (s *Script) limits() wire.LimitsReply {
	if s.Limits != nil {
		return *s.Limits
	}
	return OpenSSHLimits()
}

func (s *Script) extensions() []wire.ExtensionPair {
	if s.Extensions != nil {
		return s.Extensions
	}
	return OpenSSHExtensions()
}

func (s *Script) offers(name string) bool {
	return slices.ContainsFunc(s.extensions(),
		func(e wire.ExtensionPair) bool { return e.Name == name })
}

// readLength returns the length of the DATA for a READ.
func (s *Script) readLength(asked uint32) int {
	n := uint64(asked)
	if most := s.limits().MaxRead; most > 0 {
		n = min(n, most)
	}
	if s.ShortReads > 0 {
		n = min(n, uint64(s.ShortReads))
	}
	return int(n)
}

// portable maps a code to a code of version 3, as OpenSSH maps errno.
func (s *Script) portable(code wire.Code) wire.Code {
	if s.RichCodes {
		return code
	}
	switch code {
	case wire.NotADirectory, wire.LinkLoop:
		return wire.NoSuchFile
	case wire.FileAlreadyExists, wire.DirNotEmpty, wire.NoSpaceOnFilesystem, wire.InvalidHandle:
		return wire.Failure
	}
	return code
}
