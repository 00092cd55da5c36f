package server

import (
	"fmt"
	"io/fs"
	"slices"

	"github.com/usftp/usftp/wire"
)

// Policy says what of a backend a session may use. The zero Policy allows everything.
type Policy struct {
	// ReadOnly refuses whatever could change something: it looks at what is asked for, so that
	// opening a file for reading works and creating one by opening it does not.
	ReadOnly bool

	// Allowed, when not empty, names the only operations that are answered; Denied names some that
	// are not. Denied wins. See [Operations]. The handshake, and closing what is open, cannot be
	// denied.
	Allowed, Denied []string

	// Umask takes permission bits away from files and directories that are made, besides what the
	// process's own does.
	Umask fs.FileMode

	// Home is the directory where relative paths begin; "" is "/".
	Home string

	// User is the name of who is logged in, whose "~name" is Home as well.
	User string

	// Quota, when not nil, bounds what lies below Home. It is for backends that serve nothing else
	// to the same user.
	Quota *Quota
}

// operation is what a request asks for, packet types and extended requests alike.
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
	operationCount
)

// operationTable describes each operation. Names are those that OpenSSH's sftp-server uses for its
// options -P and -p.
var operationTable = [operationCount]struct {
	name      string
	wireType  wire.Type
	extension string // the name of the extended request
	version   string // as VERSION offers it
	writes    bool   // always changes something; OPEN is judged by its flags
}{
	opUnknown:  {name: "unknown"},
	opOpen:     {name: "open", wireType: wire.TypeOpen},
	opClose:    {name: "close", wireType: wire.TypeClose},
	opRead:     {name: "read", wireType: wire.TypeRead},
	opWrite:    {name: "write", wireType: wire.TypeWrite, writes: true},
	opLstat:    {name: "lstat", wireType: wire.TypeLstat},
	opFstat:    {name: "fstat", wireType: wire.TypeFstat},
	opSetstat:  {name: "setstat", wireType: wire.TypeSetstat, writes: true},
	opFsetstat: {name: "fsetstat", wireType: wire.TypeFsetstat, writes: true},
	opOpendir:  {name: "opendir", wireType: wire.TypeOpendir},
	opReaddir:  {name: "readdir", wireType: wire.TypeReaddir},
	opRemove:   {name: "remove", wireType: wire.TypeRemove, writes: true},
	opMkdir:    {name: "mkdir", wireType: wire.TypeMkdir, writes: true},
	opRmdir:    {name: "rmdir", wireType: wire.TypeRmdir, writes: true},
	opRealpath: {name: "realpath", wireType: wire.TypeRealpath},
	opStat:     {name: "stat", wireType: wire.TypeStat},
	opRename:   {name: "rename", wireType: wire.TypeRename, writes: true},
	opReadlink: {name: "readlink", wireType: wire.TypeReadlink},
	opSymlink:  {name: "symlink", wireType: wire.TypeSymlink, writes: true},
	opPosixRename: {name: "posix-rename", extension: wire.ExtPosixRename, version: "1",
		writes: true},
	opStatVFS:       {name: "statvfs", extension: wire.ExtStatVFS, version: "2"},
	opFstatVFS:      {name: "fstatvfs", extension: wire.ExtFstatVFS, version: "2"},
	opHardlink:      {name: "hardlink", extension: wire.ExtHardlink, version: "1", writes: true},
	opFsync:         {name: "fsync", extension: wire.ExtFsync, version: "1", writes: true},
	opLsetstat:      {name: "lsetstat", extension: wire.ExtLsetstat, version: "1", writes: true},
	opLimits:        {name: "limits", extension: wire.ExtLimits, version: "1"},
	opExpandPath:    {name: "expand-path", extension: wire.ExtExpandPath, version: "1"},
	opCopyData:      {name: "copy-data", extension: wire.ExtCopyData, version: "1", writes: true},
	opHomeDirectory: {name: "home-directory", extension: wire.ExtHomeDirectory, version: "1"},
	opUsersGroups: {name: "users-groups-by-id", extension: wire.ExtUsersGroupsByID,
		version: "1"},
	opCheckFileHandle: {name: "check-file-handle", extension: wire.ExtCheckFileHandle,
		version: "1"},
	opCheckFileName: {name: "check-file-name", extension: wire.ExtCheckFileName, version: "1"},
	opChunks:        {name: "chunks", extension: wire.ExtChunks, version: "1"},
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

// extensionOperation finds an extended request; the compiler makes no string of name.
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

// Operations returns the names by which [Policy] allows and denies requests: OpenSSH's, as
// sftp-server -Q requests lists them.
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
