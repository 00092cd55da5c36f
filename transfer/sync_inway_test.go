package transfer_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// A sync does not see an excluded directory until the file of the same name is to get its place.
// The directory stays, and nothing of the file does.
func TestSyncLeavesNothingWhereAnExcludedDirectoryIs(t *testing.T) {
	t.Parallel()
	renames := map[string][]wire.ExtensionPair{"posix-rename": nil, "rename": {}}
	for _, direction := range []way{upload, download, relay, local} {
		for rename, offered := range renames {
			for _, size := range []int{10, 300_000} {
				t.Run(fmt.Sprint(direction, " ", rename, " ", size), func(t *testing.T) {
					b := newBench(t, sftptest.Script{Extensions: offered}, sftptest.LinkConfig{})
					testExcludedInWay(t, b, direction, bytes.Repeat([]byte("x"), size))
				})
			}
		}
	}
}

func testExcludedInWay(t *testing.T, b *bench, direction way, data []byte) {
	src, dst := "/s", "/t"
	if direction == upload || direction == local {
		src = filepath.Join(b.dir, "s")
		os.Mkdir(src, 0o755)
		b.local("s/ab", data)
	}
	if direction == download || direction == local {
		dst = filepath.Join(b.dir, "t")
		os.MkdirAll(filepath.Join(dst, "ab"), 0o755)
	}
	b.server.Files.WriteFile("/s/ab", data)
	b.server.Files.Mkdir("/t")
	b.server.Files.Mkdir("/t/ab")
	j := &syncJob{direction: direction, far: b.host, src: src, dst: dst,
		options: transfer.SyncOptions{TreeOptions: transfer.TreeOptions{Filter: rules("*/")}}}
	_, err := j.run(t)
	if err == nil || !strings.HasSuffix(err.Error(), "ab: is a directory") {
		t.Errorf("it ends with %v", err)
	}
	here := filesIn(b.dir)
	if left := b.temporaries(); len(left) > 0 || strings.Contains(fmt.Sprint(here), ".usftp-") {
		t.Errorf("%q are left on the host, and here is %q", left, here)
	}
}

// What can be read only once is kept where a directory has taken the name meanwhile.
func TestAPipesDataIsKeptWhereADirectoryAppears(t *testing.T) {
	t.Parallel()
	for name, offered := range map[string][]wire.ExtensionPair{"posix-rename": nil, "rename": {}} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, sftptest.Script{Extensions: offered}, sftptest.LinkConfig{})
			read, write := io.Pipe()
			go func() {
				write.Write([]byte("data"))
				b.server.Files.Mkdir("/target") // the copy has begun
				write.Close()
			}()
			result, err := b.job(upload, "", "/target", func(j *copyJob) { j.Reader = read })
			if err == nil || !strings.Contains(err.Error(),
				"all of the data is in far:"+result.LeftBehind) ||
				string(b.remote(result.LeftBehind)) != "data" {
				t.Errorf("%+v, %v", result, err)
			}
		})
	}
}
