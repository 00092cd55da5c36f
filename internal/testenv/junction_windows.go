package testenv

import (
	"encoding/binary"
	"os"
	"testing"
	"unicode/utf16"

	"golang.org/x/sys/windows"
)

// Junction makes a junction that leads to a directory, whose path is absolute. Where junctions
// cannot be made, the test cannot run: see [Unavailable].
func Junction(tb testing.TB, target, name string) {
	tb.Helper()
	if err := os.Mkdir(name, 0o755); err != nil {
		tb.Fatal(err)
	}
	text, err := windows.UTF16PtrFromString(name)
	if err != nil {
		tb.Fatal(err)
	}
	dir, err := windows.CreateFile(text, windows.GENERIC_WRITE, 0, nil, windows.OPEN_EXISTING,
		windows.FILE_FLAG_BACKUP_SEMANTICS|windows.FILE_FLAG_OPEN_REPARSE_POINT, 0)
	if err != nil {
		tb.Fatal(err)
	}
	defer windows.CloseHandle(dir)
	// REPARSE_DATA_BUFFER, MS-FSCC section 2.1.2.5: the path for the system, and one to show.
	path, shown := utf16.Encode([]rune(`\??\`+target+"\x00")), utf16.Encode([]rune(target+"\x00"))
	units := append(path, shown...)
	order := binary.LittleEndian
	data := order.AppendUint32(nil, windows.IO_REPARSE_TAG_MOUNT_POINT)
	for _, field := range []int{8 + 2*len(units), 0, 0, 2*len(path) - 2, 2 * len(path),
		2*len(shown) - 2} {
		data = order.AppendUint16(data, uint16(field))
	}
	for _, unit := range units {
		data = order.AppendUint16(data, unit)
	}
	var n uint32
	if err := windows.DeviceIoControl(dir, windows.FSCTL_SET_REPARSE_POINT, &data[0],
		uint32(len(data)), nil, 0, &n, nil); err != nil {
		Unavailable(tb, "junctions, which Wine, unlike Windows, cannot make: "+err.Error())
	}
}
