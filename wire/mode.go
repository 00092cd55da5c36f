package wire

import "io/fs"

// The file types and special bits of POSIX st_mode, which ATTRS permissions carry (draft-02,
// section 5; <sys/stat.h>).
const (
	modeType    = 0o170000
	modeDoor    = 0o150000 // on Solaris, where Go says that it is irregular
	modeSocket  = 0o140000
	modeSymlink = 0o120000
	modeRegular = 0o100000
	modeBlock   = 0o060000
	modeDir     = 0o040000
	modeChar    = 0o020000
	modeFIFO    = 0o010000
	modeSetuid  = 0o4000
	modeSetgid  = 0o2000
	modeSticky  = 0o1000
)

// A modeBit pairs the POSIX and Go bits of the same type, or of the same special bit.
type modeBit struct {
	posix uint32
	mode  fs.FileMode
}

var fileTypes = []modeBit{
	{modeRegular, 0},
	{modeDir, fs.ModeDir},
	{modeSymlink, fs.ModeSymlink},
	{modeBlock, fs.ModeDevice},
	{modeChar, fs.ModeDevice | fs.ModeCharDevice},
	{modeFIFO, fs.ModeNamedPipe},
	{modeSocket, fs.ModeSocket},
	{modeDoor, fs.ModeIrregular},
}

var specialBits = []modeBit{
	{modeSetuid, fs.ModeSetuid}, {modeSetgid, fs.ModeSetgid}, {modeSticky, fs.ModeSticky},
}

// FileMode converts POSIX mode bits to Go's. Permissions without a type, as some servers send, make
// a regular file; an unknown type makes an irregular one.
func FileMode(permissions uint32) fs.FileMode {
	mode := fs.FileMode(permissions & 0o777)
	for _, b := range specialBits {
		if permissions&b.posix != 0 {
			mode |= b.mode
		}
	}
	for _, t := range fileTypes {
		if permissions&modeType == t.posix {
			return mode | t.mode
		}
	}
	if permissions&modeType != 0 {
		mode |= fs.ModeIrregular
	}
	return mode
}

// Permissions converts Go's mode to POSIX mode bits, type included. An irregular file has no type
// in POSIX, and gets the type of a Solaris door: without any it would be taken for a regular file.
// On Windows a directory may be irregular besides.
func Permissions(mode fs.FileMode) uint32 {
	bits, kind := PermissionBits(mode), mode.Type()
	if mode.IsDir() {
		kind = fs.ModeDir
	}
	for _, t := range fileTypes {
		if kind == t.mode {
			bits |= t.posix
		}
	}
	return bits
}

// PermissionBits converts the bits that chmod can change to POSIX bits: permissions, setuid, setgid
// and sticky, without the type.
func PermissionBits(mode fs.FileMode) uint32 {
	bits := uint32(mode.Perm())
	for _, b := range specialBits {
		if mode&b.mode != 0 {
			bits |= b.posix
		}
	}
	return bits
}
