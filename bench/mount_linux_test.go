package bench

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"testing"

	"github.com/usftp/usftp/bench/pipes"
	"github.com/usftp/usftp/internal/testenv"
)

// mountMemory is how much memory a mount may take.
const mountMemory = 64 << 20

// mountNames is how many files the tree has that is listed.
const mountNames = 200_000

// TestMountMemory: a mount stays within its memory whatever is done on it: large files in and out,
// many files at once, and a tree of 200,000 names.
func TestMountMemory(t *testing.T) {
	server, err := pipes.FindServer()
	if err == nil {
		_, err = exec.LookPath("fusermount3")
	}
	if err == nil {
		_, err = os.Stat("/dev/fuse")
	}
	if err != nil {
		testenv.Unavailable(t, err)
	}
	program := filepath.Join(t.TempDir(), "usftp")
	build := exec.Command("go", "build", "-o", program, "./cmd/usftp")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	far, at := memoryDir(t), t.TempDir()
	const size = 100 << 20
	if err := os.WriteFile(filepath.Join(far, "large"), make([]byte, size), 0o644); err != nil {
		t.Fatal(err)
	}
	for i := range mountNames {
		name := filepath.Join(far, "tree", fmt.Sprint(i/500), fmt.Sprint(i))
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755),
			os.WriteFile(name, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	mount := exec.Command(program, "mount", "-f", "-q", "-D", server, "far:"+far, at)
	var said bytes.Buffer
	mount.Stderr = &said
	mount.Env = append(os.Environ(), "HOME="+t.TempDir())
	if err := mount.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		mount.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		if out, err := exec.Command("fusermount3", "-uz", at).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
			mount.Process.Kill()
		}
		<-ended
	})
	testenv.Until(t, "it mounts", func() bool {
		_, err := os.Stat(filepath.Join(at, "large"))
		return err == nil
	})
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"reading a file", func() error { return readOnMount(filepath.Join(at, "large")) }},
		{"writing a file", func() error {
			return os.WriteFile(filepath.Join(at, "copy"), make([]byte, size), 0o644)
		}},
		{"writing 16 files at once", func() error {
			return together(16, func(i int) error {
				return os.WriteFile(filepath.Join(at, fmt.Sprint("copy", i)), make([]byte, size/16),
					0o644)
			})
		}},
		{"reading 16 files at once", func() error {
			return together(16, func(i int) error {
				return readOnMount(filepath.Join(at, fmt.Sprint("copy", i)))
			})
		}},
		{"listing a tree", func() error {
			names := 0
			err := filepath.WalkDir(at, func(_ string, d fs.DirEntry, err error) error {
				if err == nil {
					_, err = d.Info()
				}
				names++
				return err
			})
			if err == nil && names < mountNames {
				err = fmt.Errorf("%d names", names)
			}
			return err
		}},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		peak := peakMemory(t, mount.Process.Pid)
		t.Logf("%s: %d MiB", step.what, peak>>20)
		if peak > mountMemory {
			t.Errorf("%s took %d MiB", step.what, peak>>20)
		}
	}
}

// readOnMount reads a file to its end.
func readOnMount(name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(io.Discard, struct{ io.Reader }{file})
	return err
}

// together runs n calls at once.
func together(n int, do func(i int) error) error {
	failures := make([]error, n)
	var running sync.WaitGroup
	for i := range n {
		running.Go(func() { failures[i] = do(i) })
	}
	running.Wait()
	return errors.Join(failures...)
}

// peakMemory returns the most memory that a process has had, in bytes.
func peakMemory(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`VmHWM:\s*(\d+) kB`).FindSubmatch(text)
	if found == nil {
		t.Fatalf("no VmHWM in %s", text)
	}
	kib, err := strconv.ParseInt(string(found[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}
