package server

import (
	"fmt"
	"io/fs"
	"slices"

	"github.com/usftp/usftp/wire"
)

// Policy restricts how a session may use a backend. The zero Policy allows everything.
type Policy struct {
	// ReadOnly refuses every request that could change something. A file can still be opened for
	// reading, unless that would create it.
	ReadOnly bool

	// Allowed, if not empty, names the only operations that are allowed. Denied names operations
	// that are not, and takes precedence. See [Operations]. The handshake, and closing handles,
	// cannot be denied.
	Allowed, Denied []string

	// Umask removes permission bits from new files and directories, in addition to the process's
	// own umask.
	Umask fs.FileMode

	// Home is the directory at which relative paths start; "" means "/".
	Home string

	// User is the name of the logged-in user, whose "~name" is Home as well.
	User string

	// Quota, if not nil, limits what lies below Home. It is for backends that serve nothing else to
	// the same user.
	Quota *Quota
}

// operation is what a request asks for, whether a packet type or an extended request.
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
	operationCount
)

// operationTable describes each operation. Names are those used by the options -P and -p of
// OpenSSH's sftp-server.
var operationTable = [operationCount]struct {
	name      string
	wireType  wire.Type
	extension string // the name of the extended request
	version   string // as VERSION offers it; "" means "1"
	writes    bool   // always changes something; OPEN is judged by its flags
}{
	opUnknown:         {name: "unknown"},
	opOpen:            {name: "open", wireType: wire.TypeOpen},
	opClose:           {name: "close", wireType: wire.TypeClose},
	opRead:            {name: "read", wireType: wire.TypeRead},
	opWrite:           {name: "write", wireType: wire.TypeWrite, writes: true},
	opLstat:           {name: "lstat", wireType: wire.TypeLstat},
	opFstat:           {name: "fstat", wireType: wire.TypeFstat},
	opSetstat:         {name: "setstat", wireType: wire.TypeSetstat, writes: true},
	opFsetstat:        {name: "fsetstat", wireType: wire.TypeFsetstat, writes: true},
	opOpendir:         {name: "opendir", wireType: wire.TypeOpendir},
	opReaddir:         {name: "readdir", wireType: wire.TypeReaddir},
	opRemove:          {name: "remove", wireType: wire.TypeRemove, writes: true},
	opMkdir:           {name: "mkdir", wireType: wire.TypeMkdir, writes: true},
	opRmdir:           {name: "rmdir", wireType: wire.TypeRmdir, writes: true},
	opRealpath:        {name: "realpath", wireType: wire.TypeRealpath},
	opStat:            {name: "stat", wireType: wire.TypeStat},
	opRename:          {name: "rename", wireType: wire.TypeRename, writes: true},
	opReadlink:        {name: "readlink", wireType: wire.TypeReadlink},
	opSymlink:         {name: "symlink", wireType: wire.TypeSymlink, writes: true},
	opPosixRename:     {name: "posix-rename", extension: wire.ExtPosixRename, writes: true},
	opStatVFS:         {name: "statvfs", extension: wire.ExtStatVFS, version: "2"},
	opFstatVFS:        {name: "fstatvfs", extension: wire.ExtFstatVFS, version: "2"},
	opHardlink:        {name: "hardlink", extension: wire.ExtHardlink, writes: true},
	opFsync:           {name: "fsync", extension: wire.ExtFsync, writes: true},
	opLsetstat:        {name: "lsetstat", extension: wire.ExtLsetstat, writes: true},
	opLimits:          {name: "limits", extension: wire.ExtLimits},
	opExpandPath:      {name: "expand-path", extension: wire.ExtExpandPath},
	opCopyData:        {name: "copy-data", extension: wire.ExtCopyData, writes: true},
	opHomeDirectory:   {name: "home-directory", extension: wire.ExtHomeDirectory},
	opUsersGroups:     {name: "users-groups-by-id", extension: wire.ExtUsersGroupsByID},
	opCheckFileHandle: {name: "check-file-handle", extension: wire.ExtCheckFileHandle},
	opCheckFileName:   {name: "check-file-name", extension: wire.ExtCheckFileName},
	opChunks:          {name: "chunks", extension: wire.ExtChunks},
	opBeneath:         {name: "beneath", extension: wire.ExtBeneath, writes: true},
}

func (o operation) String() string { return operationTable[o].name }

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
