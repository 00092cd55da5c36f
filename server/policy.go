package server

import (
	"fmt"
	"io/fs"
	"slices"

	"github.com/usftp/usftp/wire"
)

// Policy restricts how a session may use a backend. The zero Policy allows everything.
type Policy struct {
	// ReadOnly refuses every request that could change something. Opening a file for reading still
	// works, unless that would create it.
	ReadOnly bool

	// Allowed, if not empty, names the only operations that are allowed. Denied names operations
	// that are not, and takes precedence. See [Operations]. The handshake, and closing handles,
	// cannot be denied.
	//
	// Denying write, read, setstat, fsetstat, rename, check-file or statvfs denies every request
	// with the same effect: without write, no request truncates a file or copies into one.
	Allowed, Denied []string

	// Umask removes permission bits from new files and directories, in addition to the process's
	// own umask.
	Umask fs.FileMode

	// Home is the directory at which relative paths start; "" means "/".
	Home string

	// User is the name of the logged-in user, whose "~name" is Home as well.
	User string

	// Quota, if not nil, limits the files below Home. It suits backends that serve nothing else to
	// the same user.
	Quota *Quota

	// MaxFileSize limits the size to which a file can be made; 0 means no limit. Larger existing
	// files can be read.
	MaxFileSize int64

	// Uploads and Downloads, if not nil, have the bytes of contents that clients may still send and
	// fetch. Bytes that the server copies or hashes by itself do not count.
	Uploads, Downloads Account
}

// operation is a kind of request, whether a packet type or an extended request.
type operation uint8

const (
	opUnknown operation = iota
	opOpen
	opClose
	opRead
	opWrite
	opLstat
	opFstat
	opSetstat
	opFsetstat
	opOpendir
	opReaddir
	opRemove
	opMkdir
	opRmdir
	opRealpath
	opStat
	opRename
	opReadlink
	opSymlink
	opPosixRename
	opStatVFS
	opFstatVFS
	opHardlink
	opFsync
	opLsetstat
	opLimits
	opExpandPath
	opCopyData
	opHomeDirectory
	opUsersGroups
	opCheckFileHandle
	opCheckFileName
	opChunks
	opBeneath
	opAbandon
	opUploads
	opPutFiles
	opGetFiles
	operationCount
)

// effect is something that several kinds of requests do. A set has a bit for each.
type effect uint8

const (
	readsContents  effect = 1 << iota // or values computed from them
	writesContents                    // or changes the size
	hashesContents                    // tells whether contents are equal to others
	setsAttributes                    // other than a new file's usual ones
	renames
	describesDisk
)

// operationTable describes each operation. Names are those used by the options -P and -p of
// OpenSSH's sftp-server.
var operationTable = [operationCount]struct {
	name      string
	wireType  wire.Type
	extension string // the name of the extended request
	version   string // as VERSION offers it; "" means "1"
	writes    bool   // always changes something; OPEN is judged by its flags
	does      effect // always; [request.does] adds effects that depend on the request
	denies    effect // effects that are denied along with this request
}{
	opUnknown:         {name: "unknown"},
	opOpen:            {name: "open", wireType: wire.TypeOpen},
	opClose:           {name: "close", wireType: wire.TypeClose},
	opRead:            {name: "read", wireType: wire.TypeRead, does: readsContents, denies: readsContents},
	opWrite:           {name: "write", wireType: wire.TypeWrite, writes: true, does: writesContents, denies: writesContents},
	opLstat:           {name: "lstat", wireType: wire.TypeLstat},
	opFstat:           {name: "fstat", wireType: wire.TypeFstat},
	opSetstat:         {name: "setstat", wireType: wire.TypeSetstat, writes: true, does: setsAttributes, denies: setsAttributes},
	opFsetstat:        {name: "fsetstat", wireType: wire.TypeFsetstat, writes: true, does: setsAttributes, denies: setsAttributes},
	opOpendir:         {name: "opendir", wireType: wire.TypeOpendir},
	opReaddir:         {name: "readdir", wireType: wire.TypeReaddir},
	opRemove:          {name: "remove", wireType: wire.TypeRemove, writes: true},
	opMkdir:           {name: "mkdir", wireType: wire.TypeMkdir, writes: true},
	opRmdir:           {name: "rmdir", wireType: wire.TypeRmdir, writes: true},
	opRealpath:        {name: "realpath", wireType: wire.TypeRealpath},
	opStat:            {name: "stat", wireType: wire.TypeStat},
	opRename:          {name: "rename", wireType: wire.TypeRename, writes: true, does: renames, denies: renames},
	opReadlink:        {name: "readlink", wireType: wire.TypeReadlink},
	opSymlink:         {name: "symlink", wireType: wire.TypeSymlink, writes: true},
	opPosixRename:     {name: "posix-rename", extension: wire.ExtPosixRename, writes: true, does: renames},
	opStatVFS:         {name: "statvfs", extension: wire.ExtStatVFS, version: "2", does: describesDisk, denies: describesDisk},
	opFstatVFS:        {name: "fstatvfs", extension: wire.ExtFstatVFS, version: "2", does: describesDisk, denies: describesDisk},
	opHardlink:        {name: "hardlink", extension: wire.ExtHardlink, writes: true},
	opFsync:           {name: "fsync", extension: wire.ExtFsync, writes: true},
	opLsetstat:        {name: "lsetstat", extension: wire.ExtLsetstat, writes: true, does: setsAttributes},
	opLimits:          {name: "limits", extension: wire.ExtLimits},
	opExpandPath:      {name: "expand-path", extension: wire.ExtExpandPath},
	opCopyData:        {name: "copy-data", extension: wire.ExtCopyData, writes: true, does: readsContents | writesContents},
	opHomeDirectory:   {name: "home-directory", extension: wire.ExtHomeDirectory},
	opUsersGroups:     {name: "users-groups-by-id", extension: wire.ExtUsersGroupsByID},
	opCheckFileHandle: {name: "check-file-handle", extension: wire.ExtCheckFileHandle, does: readsContents | hashesContents, denies: hashesContents},
	opCheckFileName:   {name: "check-file-name", extension: wire.ExtCheckFileName, does: readsContents | hashesContents, denies: hashesContents},
	opChunks:          {name: "chunks", extension: wire.ExtChunks, does: readsContents | hashesContents},
	opBeneath:         {name: "beneath", extension: wire.ExtBeneath, version: "2", writes: true},
	opAbandon:         {name: "abandon", extension: wire.ExtAbandon},
	opUploads:         {name: "uploads", extension: wire.ExtUploads},
	opPutFiles:        {name: "put-files", extension: wire.ExtPutFiles, writes: true, does: writesContents | setsAttributes | renames},
	opGetFiles:        {name: "get-files", extension: wire.ExtGetFiles, does: readsContents},
}

func (o operation) String() string { return operationTable[o].name }

// closes reports whether a request closes its handle.
func (o operation) closes() bool { return o == opClose || o == opAbandon }

var operationByType = func() (table [256]operation) {
	for o, row := range operationTable {
		if row.wireType != 0 {
			table[row.wireType] = operation(o)
		}
	}
	return table
}()

// extensionOperation finds an extended request. The compiler avoids converting name to a string.
func extensionOperation(name []byte) operation {
	for o := opPosixRename; o < operationCount; o++ {
		if operationTable[o].extension == string(name) {
			return o
		}
	}
	if string(name) == wire.ExtCheckFile {
		return opCheckFileHandle
	}
	return opUnknown
}

// Operations returns the names by which [Policy] allows and denies requests: OpenSSH's, as listed
// by sftp-server -Q requests.
func Operations() []string {
	var names []string
	for o := opOpen; o < operationCount; o++ {
		names = append(names, o.String())
	}
	return names
}

// openDoes returns OPEN's effects.
func openDoes(flags uint32, attrs *wire.Attrs) (does effect) {
	if flags&wire.OpenTruncate != 0 {
		does |= writesContents
	}
	if flags&wire.OpenCreate != 0 {
		does |= makeDoes(attrs) | sizeDoes(attrs)
	}
	return does
}

// makeDoes returns the effects of creating a file; setting its mode is part of creating it.
func makeDoes(attrs *wire.Attrs) effect {
	if attrs.Flags&(wire.AttrUIDGID|wire.AttrACModTime) != 0 {
		return setsAttributes
	}
	return 0
}

// sizeDoes returns the further effects of setting attributes.
func sizeDoes(attrs *wire.Attrs) effect {
	if attrs.Has(wire.AttrSize) {
		return writesContents
	}
	return 0
}

// does returns the effects of a request that depend on its arguments.
func (r *request) does() effect {
	switch r.op {
	case opOpen:
		return openDoes(r.flags, &r.attrs)
	case opMkdir:
		return makeDoes(&r.attrs)
	case opSetstat, opFsetstat, opLsetstat:
		return sizeDoes(&r.attrs)
	}
	return 0
}

// forbidden returns the operations and the effects that a policy forbids. A list of allowed
// operations forbids the effects that none of them has.
func (p *Policy) forbidden() (operations operationSet, effects effect, err error) {
	allowed, err := parseOperations(p.Allowed)
	if err != nil {
		return 0, 0, err
	}
	denied, err := parseOperations(p.Denied)
	if err != nil {
		return 0, 0, err
	}
	var granted effect
	for o := opOpen; o < operationCount; o++ {
		if allowed.has(o) {
			granted |= operationTable[o].does
		}
		if denied.has(o) {
			effects |= operationTable[o].denies
		}
	}
	if len(p.Allowed) > 0 {
		denied |= ^allowed
		effects |= ^granted
	}
	return denied &^ (1 << opClose), effects, nil
}

// operationSet has a bit for each operation.
type operationSet uint64

func (s operationSet) has(o operation) bool { return s&(1<<o) != 0 }

func parseOperations(names []string) (set operationSet, err error) {
	all := Operations()
	for _, name := range names {
		i := slices.Index(all, name)
		if i < 0 {
			return 0, fmt.Errorf("sftp server: unknown request %q; use one of %q", name, all)
		}
		set |= 1 << (opOpen + operation(i))
	}
	return set, nil
}
