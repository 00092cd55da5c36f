package localfs

import (
	"os"

	"golang.org/x/sys/windows"
)

// FileSystemID returns the serial number of the volume that holds a path, by which package osfs
// identifies it in statvfs. Zeros mean unknown.
func FileSystemID(name string) [2]uint64 {
	f, err := os.Open(name)
	if err != nil {
		return [2]uint64{}
	}
	defer f.Close()
	var data windows.ByHandleFileInformation
	if windows.GetFileInformationByHandle(windows.Handle(f.Fd()), &data) != nil {
		return [2]uint64{}
	}
	return [2]uint64{uint64(data.VolumeSerialNumber)}
}
