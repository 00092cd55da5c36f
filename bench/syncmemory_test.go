package bench

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/usftp/usftp/bench/pipes"
	"github.com/usftp/usftp/internal/testenv"
)

// A sync of a million files that are all there already, in one directory or spread over a tree,
// stays within 64 MiB. USFTP_FILES=1000000 measures that, and needs two million names on the disk.
// Without it there are fewer, and what counts is how little more ten times as many take.
func TestSyncMemory(t *testing.T) {
	const bound = 64 << 20
	files, long := 30_000, false
	if text := os.Getenv("USFTP_FILES"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		files, long = n, true
	}
	server, err := pipes.FindServer()
	if err != nil {
		testenv.Unavailable(t, err)
	}
	usftp := filepath.Join(t.TempDir(), "usftp")
	if out, err := exec.Command("go", "build", "-C", "..", "-o", usftp,
		"./cmd/usftp").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	for _, shape := range []struct {
		name   string
		inEach int   // files in one directory
		each   int64 // bytes that one more file may take
	}{{"in one directory", files, 40}, {"in a tree", 100, 10}} {
		t.Run(shape.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			all, some := filepath.Join(dir, "all"), filepath.Join(dir, "some")
			plant(t, all, files, shape.inEach)
			plant(t, some, files/10, shape.inEach)
			for _, upload := range []bool{true, false} {
				peak := syncPeak(t, usftp, server, all, files, upload, "")
				t.Logf("upload %v: %d files take %.1f MiB", upload, files, float64(peak)/(1<<20))
				if peak > bound {
					t.Errorf("upload %v: %d files take %d bytes, more than %d", upload, files, peak,
						bound)
				}
				if long {
					continue
				}
				// an eager collector leaves little garbage
				more := syncPeak(t, usftp, server, all, files, upload, "GOGC=10") -
					syncPeak(t, usftp, server, some, files/10, upload, "GOGC=10")
				t.Logf("upload %v: ten times as many take %.1f MiB more", upload,
					float64(more)/(1<<20))
				if most := shape.each*int64(files-files/10) + 6<<20; more > most {
					t.Errorf("upload %v: ten times as many take %d bytes more, more than %d",
						upload, more, most)
				}
			}
		})
	}
}

// plant makes two equal directories of empty files, "here" and "there", in a new one.
func plant(t *testing.T, root string, files, inEach int) {
	t.Helper()
	for _, name := range []string{"here", "there"} {
		if err := os.MkdirAll(filepath.Join(root, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	when := time.Unix(1_600_000_000, 0)
	var work sync.WaitGroup
	defer work.Wait()
	const links = 30_000 // a file has 65,000 names at most, on ext4
	for from := 0; from < files; from += links {
		work.Go(func() {
			first := ""
			for i := from; i < min(from+links, files); i++ {
				dir := ""
				if inEach < files {
					dir = fmt.Sprintf("d%d/d%d", i/inEach/100, i/inEach)
				}
				name := filepath.Join(dir, fmt.Sprintf("a file with a name of its own %d", i))
				for _, side := range []string{"here", "there"} {
					if i == from || i%inEach == 0 {
						if err := os.MkdirAll(filepath.Join(root, side, dir), 0o755); err != nil {
							t.Error(err)
							return
						}
					}
					name := filepath.Join(root, side, name)
					if first != "" {
						if err := os.Link(first, name); err != nil {
							t.Error(err)
							return
						}
						continue
					}
					first = name
					if err := errors.Join(os.WriteFile(name, nil, 0o644),
						os.Chtimes(name, when, when)); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
}

var peakSaid = regexp.MustCompile(`peak memory: (\d+) kB`)

// syncPeak returns the peak memory of a sync that finds nothing to do but to set the directories'
// times.
func syncPeak(t *testing.T, usftp, server, root string, files int, upload bool, env string) int64 {
	t.Helper()
	src, dst := filepath.Join(root, "here"), filepath.Join(root, "there")
	if upload {
		dst = "host:" + dst
	} else {
		src = "host:" + src
	}
	cmd := exec.CommandContext(t.Context(), usftp, "sync", "-vv", "--delete", "-D", server, src,
		dst)
	cmd.Env = append(os.Environ(), "HOME="+root, "XDG_STATE_HOME="+root, env)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), fmt.Sprintf("; %d equal", files)) {
		t.Fatalf("usftp sync: %v: %s", err, out)
	}
	// Not the usage that wait reports: that is at least the peak of the process that started it.
	said := peakSaid.FindSubmatch(out)
	if said == nil {
		t.Fatalf("usftp sync does not say how much memory it took: %s", out)
	}
	peak, err := strconv.ParseInt(string(said[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return peak << 10
}
