package transfer_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/usftp/usftp/transfer"
)

// othersDisk runs the rest of a test again as a user who may write to a disk that root has mounted,
// but owns nothing there, so that nobody lets them set times or permissions. It returns the disk
// there, and "" here.
func othersDisk(t *testing.T) string {
	t.Helper()
	const named = "USFTP_TEST_DISK"
	if disk := os.Getenv(named); disk != "" {
		return disk
	}
	disk := exFAT(t)
	for dir := disk; len(dir) > len(os.TempDir()); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	test := exec.Command("/proc/self/exe", "-test.v", "-test.run=^"+t.Name()+"$")
	test.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	test.Env = append(os.Environ(), "TMPDIR=/tmp", named+"="+disk)
	out, err := test.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("as nobody: %v\n%s", err, out)
	}
	return ""
}

// TestDiskThatSetsNoAttributes: a file system of this machine that lets us set neither times nor
// permissions gets all contents, as a host of that kind does, and is reported once.
func TestDiskThatSetsNoAttributes(t *testing.T) {
	disk := othersDisk(t)
	if disk == "" {
		return
	}
	src := t.TempDir()
	fill(t, src, "a", "sub/b", "sub/c")
	long := time.Unix(1_000_000_000, 0)
	for _, name := range []string{"a", "sub/b", "sub/c", "sub"} {
		name = filepath.Join(src, name)
		if err := errors.Join(os.Chmod(name, 0o700), os.Chtimes(name, long, long)); err != nil {
			t.Fatal(err)
		}
	}
	var warnings []string
	var options transfer.TreeOptions
	options.Preserve, options.NoTargetDirectory = true, true
	options.Events = func(e transfer.Event) {
		if e.Kind == transfer.Warning {
			warnings = append(warnings, e.Message)
		}
	}
	told := func(want ...string) {
		t.Helper()
		slices.Sort(warnings)
		for i, w := range want {
			if len(warnings) != len(want) || !strings.Contains(warnings[i], w) {
				t.Fatalf("the warnings are %q", warnings)
			}
		}
		warnings = nil
	}
	copied := func(dst string, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"a", "sub/b", "sub/c"} {
			want, _ := os.ReadFile(filepath.Join(src, name))
			if got, err := os.ReadFile(filepath.Join(dst, name)); !bytes.Equal(got, want) {
				t.Errorf("%s has %q: %v", name, got, err)
			}
		}
	}

	dst := filepath.Join(disk, "copy")
	for range 2 { // the second one replaces files
		_, err := transfer.CopyTree(t.Context(), transfer.Local(dst), transfer.Local(src), options)
		copied(dst, err)
		told("the file system does not set permissions", "the file system does not set times")
	}
	one := options.Options
	_, err := transfer.Copy(t.Context(), transfer.Local(filepath.Join(dst, "a")),
		transfer.Local(filepath.Join(src, "sub/b")), one)
	if got, _ := os.ReadFile(filepath.Join(dst, "a")); err != nil ||
		string(got) != filepath.Join(src, "sub/b") {
		t.Errorf("the file has %q: %v", got, err)
	}
	told("the file system does not set permissions", "the file system does not set times")

	dst = filepath.Join(disk, "mirror")
	sync := transfer.SyncOptions{Delete: true}
	sync.Events = options.Events
	result, err := transfer.Sync(t.Context(), transfer.Local(dst), transfer.Local(src), sync)
	copied(dst, err)
	told("the file system does not set permissions", "the file system does not set times")
	if result.Files != 3 {
		t.Errorf("copied %d files", result.Files)
	}
	result, err = transfer.Sync(t.Context(), transfer.Local(dst), transfer.Local(src), sync)
	copied(dst, err)
	told("the file system does not set permissions", "times are not compared")
	if result.Files != 0 {
		t.Errorf("copied %d files again", result.Files)
	}
}
