package wire

import "io/fs"

// The file types and special bits of POSIX st_mode, which ATTRS permissions carry (draft-02,
// section 5; <sys/stat.h>).
const (
	modeType    = 0o170000
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

// FileMode converts POSIX mode bits to Go's. Permissions without a type, as some servers send, make
// a regular file; an unknown type makes an irregular one.
func FileMode(permissions uint32) fs.FileMode {
	mode := fs.FileMode(permissions & 0o777)
	switch permissions & modeType {
	case 0, modeRegular:
	case modeDir:
		mode |= fs.ModeDir
	case modeSymlink:
		mode |= fs.ModeSymlink
	case modeBlock:
		mode |= fs.ModeDevice
	case modeChar:
		mode |= fs.ModeDevice | fs.ModeCharDevice
	case modeFIFO:
		mode |= fs.ModeNamedPipe
	case modeSocket:
		mode |= fs.ModeSocket
	default:
		mode |= fs.ModeIrregular
	}
	if permissions&modeSetuid != 0 {
		mode |= fs.ModeSetuid
	}
	if permissions&modeSetgid != 0 {
		mode |= fs.ModeSetgid
	}
	if permissions&modeSticky != 0 {
		mode |= fs.ModeSticky
	}
	return mode
}

// Permissions converts Go's mode to POSIX mode bits, type included. An irregular file has no type
// in POSIX, and gets none.
func Permissions(mode fs.FileMode) uint32 {
	bits := PermissionBits(mode)
	switch mode & fs.ModeType {
	case 0:
		bits |= modeRegular
	case fs.ModeDir:
		bits |= modeDir
	case fs.ModeSymlink:
		bits |= modeSymlink
	case fs.ModeDevice:
		bits |= modeBlock
	case fs.ModeDevice | fs.ModeCharDevice:
		bits |= modeChar
	case fs.ModeNamedPipe:
		bits |= modeFIFO
	case fs.ModeSocket:
		bits |= modeSocket
	}
	return bits
}

// PermissionBits converts what chmod can change to POSIX bits: permissions, setuid, setgid and
// sticky, without the type.
func PermissionBits(mode fs.FileMode) uint32 {
	bits := uint32(mode.Perm())
	if mode&fs.ModeSetuid != 0 {
		bits |= modeSetuid
	}
	if mode&fs.ModeSetgid != 0 {
		bits |= modeSetgid
	}
	if mode&fs.ModeSticky != 0 {
		bits |= modeSticky
	}
	return bits
}
