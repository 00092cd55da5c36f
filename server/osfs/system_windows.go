package osfs

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/windows"

	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/wire"
)

// shown is a file's info without the permissions for everybody that Go makes of a flag that forbids
// writing. A client that keeps permissions would let everybody write its copy.
type shown struct{ fs.FileInfo }

// Mode implements fs.FileInfo.
func (s shown) Mode() fs.FileMode { return s.FileInfo.Mode() &^ 0o022 }

// identified is a file's info with the data that Windows has only for open files, and quotas need:
// without it, a file renamed while open would count as two.
type identified struct {
	shown
	data windows.ByHandleFileInformation
}

// FileIdentity implements server.Linked.
func (i identified) FileIdentity() any {
	return [3]uint32{i.data.VolumeSerialNumber, i.data.FileIndexHigh, i.data.FileIndexLow}
}

// LinkCount implements server.Linked.
func (i identified) LinkCount() uint64 { return uint64(i.data.NumberOfLinks) }

// A junction leads elsewhere, as a symbolic link does, and its text can be read as a link's. Go has
// only an irregular file's mode for it.
type junction struct{ shown }

// Mode implements fs.FileInfo.
func (j junction) Mode() fs.FileMode {
	return j.shown.Mode()&^fs.ModeIrregular | fs.ModeSymlink
}

// markJunction returns the info of a junction as that of a link.
func markJunction(info fs.FileInfo) fs.FileInfo {
	data, ok := info.Sys().(*syscall.Win32FileAttributeData)
	if ok && info.Mode().Type() == fs.ModeIrregular &&
		data.FileAttributes&syscall.FILE_ATTRIBUTE_DIRECTORY != 0 {
		return junction{shown{info}}
	}
	return shown{info}
}

// listed is a file's info from a listing. Opening each listed file would take long.
type listed struct{ shown }

// FileIdentity implements server.Linked.
func (listed) FileIdentity() any { return nil }

// LinkCount implements server.Linked.
func (listed) LinkCount() uint64 { return 1 }

func markListed(info fs.FileInfo) fs.FileInfo {
	if !info.Mode().IsRegular() {
		return markJunction(info)
	}
	return listed{shown{info}}
}

// identify adds a file's identity to its info, if the system knows it.
func identify(info fs.FileInfo, file *os.File) fs.FileInfo {
	data, err := localfs.HandleInfo(file)
	if err != nil {
		return shown{info}
	}
	return identified{shown{info}, data}
}

func statVFSOpen(file *os.File) (reply wire.StatVFSReply, err error) {
	info, err := file.Stat()
	if err != nil {
		return reply, err
	}
	name := make([]uint16, windows.MAX_LONG_PATH)
	if err := localfs.WithHandle(file, func(handle windows.Handle) error {
		n, err := windows.GetFinalPathNameByHandle(handle, &name[0], uint32(len(name)), 0)
		if err == nil && n >= uint32(len(name)) {
			err = syscall.ENAMETOOLONG
		}
		return err
	}); err != nil {
		return reply, err
	}
	dir := windows.UTF16ToString(name)
	if !info.IsDir() {
		dir = filepath.Dir(dir)
	}
	path, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return reply, err
	}
	const block = 4096 // the API counts bytes
	var available, total, free uint64
	if err := windows.GetDiskFreeSpaceEx(path, &available, &total, &free); err != nil {
		return reply, err
	}
	data, err := localfs.HandleInfo(file)
	return wire.StatVFSReply{BlockSize: block, FragmentSize: block, Blocks: total / block,
		BlocksFree: free / block, BlocksAvailable: available / block,
		FSID: uint64(data.VolumeSerialNumber), NameMax: 255}, err
}
