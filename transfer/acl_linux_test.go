package transfer_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/transfer"
	"golang.org/x/sys/unix"
)

// accessList returns a list, as the system stores it, that gives another user access, and the
// file's group none.
func accessList() []byte {
	const nobody = ^uint32(0)
	list := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range []struct {
		tag, perm uint16
		id        uint32
	}{{1, 6, nobody}, {2, 6, 4711}, {4, 0, nobody}, {16, 6, nobody}, {32, 0, nobody}} {
		list = binary.LittleEndian.AppendUint16(list, e.tag)
		list = binary.LittleEndian.AppendUint16(list, e.perm)
		list = binary.LittleEndian.AppendUint32(list, e.id)
	}
	return list
}

// A file that replaces another one has its access control list: the mode alone would give the
// group what the list gives to somebody else. Where the old file has none, the new one does not get
// that of new files in the directory.
func TestAccessListOfWhatIsReplaced(t *testing.T) {
	t.Parallel()
	const name, inherited = "system.posix_acl_access", "system.posix_acl_default"
	for _, direction := range []way{download, local} {
		t.Run(direction.String(), func(t *testing.T) {
			dir := testenv.OnDisk(t)
			src := filepath.Join(dir, "src")
			fill(t, src, "listed", "sub/plain")
			dst := filepath.Join(dir, "dst")
			fill(t, dst, "listed", "sub/plain")
			listed, plain := filepath.Join(dst, "listed"), filepath.Join(dst, "sub/plain")
			err := unix.Setxattr(listed, name, accessList(), 0)
			if errors.Is(err, unix.EOPNOTSUPP) {
				testenv.Unavailable(t, "a file system with access control lists")
			}
			if err := errors.Join(err, unix.Setxattr(filepath.Dir(plain), inherited, accessList(), 0),
				os.Chmod(plain, 0o640)); err != nil {
				t.Fatal(err)
			}
			far := sftpServer(t)
			for _, file := range []string{"listed", "sub/plain"} {
				to, from := direction.endpoints(far, far, filepath.Join(src, file),
					filepath.Join(dst, file), nil, nil)
				if _, err := transfer.Copy(t.Context(), to, from,
					transfer.Options{}); err != nil {
					t.Fatal(err)
				}
			}
			got := make([]byte, 100)
			n, err := unix.Getxattr(listed, name, got)
			if err != nil || !bytes.Equal(got[:n], accessList()) {
				t.Errorf("the list is %x, %v", got[:max(n, 0)], err)
			}
			if _, err := unix.Getxattr(plain, name, got); !errors.Is(err, unix.ENODATA) {
				t.Errorf("a file without a list has one: %v", err)
			}
			for file, want := range map[string]os.FileMode{listed: 0o660, plain: 0o640} {
				if info, err := os.Stat(file); err != nil || info.Mode() != want {
					t.Errorf("%s: %v, %v", file, info.Mode(), err)
				}
			}
		})
	}
}
