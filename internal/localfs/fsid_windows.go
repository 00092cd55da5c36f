package localfs

import "os"

// FileSystemID returns the serial number of the volume that holds a path, by which package osfs
// identifies it in statvfs. Zeros mean unknown.
func FileSystemID(name string) [2]uint64 {
	f, err := os.Open(name)
	if err != nil {
		return [2]uint64{}
	}
	defer f.Close()
	info, _ := HandleInfo(f)
	return [2]uint64{uint64(info.VolumeSerialNumber)}
}
