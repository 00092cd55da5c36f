package localfs

import (
	"os"

	"golang.org/x/sys/windows"
)

// HandleInfo returns the facts that Windows reveals only about an open file: its volume, its
// identity there, and how many names it has.
func HandleInfo(f *os.File) (info windows.ByHandleFileInformation, err error) {
	err = WithHandle(f, func(handle windows.Handle) error {
		return windows.GetFileInformationByHandle(handle, &info)
	})
	return info, err
}

// WithHandle calls do with the handle of a file, which stays open meanwhile.
func WithHandle(f *os.File, do func(windows.Handle) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	if failed := conn.Control(func(handle uintptr) { err = do(windows.Handle(handle)) }); failed != nil {
		return failed
	}
	return err
}
