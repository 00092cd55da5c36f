//go:build unix

package cli

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/cutproxy"
	"github.com/usftp/usftp/internal/soak"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// A watch is a running `usftp sync --watch`.
type watch struct {
	t        *testing.T
	cmd      *exec.Cmd
	out      *lines
	src, dst string
}

// lines is what a program has printed so far.
type lines struct {
	file *os.File
}

func (l *lines) String() string {
	data, _ := os.ReadFile(l.file.Name())
	return string(data)
}

func startWatch(t *testing.T, sshd *opensshd.Server, proxy *cutproxy.Proxy, args ...string) *watch {
	t.Helper()
	w := newWatch(t, sshd, proxy, args...)
	w.start()
	return w
}

// newWatch returns a watch, not yet started.
func newWatch(t *testing.T, sshd *opensshd.Server, proxy *cutproxy.Proxy, args ...string) *watch {
	t.Helper()
	dir := t.TempDir()
	w := &watch{t: t, src: filepath.Join(dir, "src"), dst: filepath.Join(dir, "dst")}
	if err := os.Mkdir(w.src, 0o755); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(w.src, "first"), []byte("first"))
	all := []string{"sync", "--watch", "-v", "-F", sshd.ConfigFile}
	if proxy != nil {
		all = append(all, "-P", strconv.Itoa(proxy.Port), "-o",
			fmt.Sprintf("HostKeyAlias=[%s]:%d", sshd.Host, sshd.Port), "--retries=100")
	}
	w.cmd = command(t, dir, append(append(all, args...), w.src, "testhost:"+w.dst)...)
	return w
}

func (w *watch) start() {
	t := w.t
	t.Helper()
	out, err := os.Create(filepath.Join(filepath.Dir(w.src), "out"))
	if err != nil {
		t.Fatal(err)
	}
	w.out = &lines{out}
	w.cmd.Stderr = out
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.cmd.Process.Signal(syscall.SIGTERM)
		w.cmd.Wait()
		out.Close()
		if t.Failed() {
			t.Log(w.out)
		}
	})
	testenv.Until(w.t, "the first run ends", func() bool {
		return strings.Contains(w.out.String(), "watching ")
	})
}

// state lists a tree with contents and modes.
func state(root string) (all []string) {
	filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		rel, _ := filepath.Rel(root, name)
		info, err := d.Info()
		if err != nil || rel == ".usftp-sync.lock" {
			return nil
		}
		line := fmt.Sprintf("%q %v", rel, info.Mode())
		switch {
		case info.Mode().IsRegular():
			data, _ := os.ReadFile(name)
			line += fmt.Sprintf(" %q", data)
		case info.Mode()&fs.ModeSymlink != 0:
			to, _ := os.Readlink(name)
			line += " " + to
		}
		all = append(all, line)
		return nil
	})
	return all
}

func (w *watch) equal() bool { return slices.Equal(state(w.src), state(w.dst)) }

// Changes are uploaded as they happen: a rename as a rename, and a file that an editor writes under
// a temporary name.
func TestWatch(t *testing.T) {
	t.Parallel()
	sshd := opensshd.Start(t, opensshd.Options{})
	w := startWatch(t, sshd, nil, "--delete")
	in := func(name string) string { return filepath.Join(w.src, name) }
	old := time.Now().Add(-time.Hour)
	inode := func(name string) uint64 {
		info, err := os.Stat(filepath.Join(w.dst, name))
		if err != nil {
			t.Fatal(err)
		}
		return info.Sys().(*syscall.Stat_t).Ino
	}
	// They come with their times, as any change of theirs could be seen along with the rename.
	apart := t.TempDir()
	os.MkdirAll(in("a/b/c"), 0o755)
	for name, data := range map[string][]byte{"big": randomData(1 << 20), "a/b/c/deep": []byte("deep")} {
		from := filepath.Join(apart, filepath.Base(name))
		writeFile(t, from, data)
		os.Chtimes(from, old, old)
		os.Rename(from, in(name))
	}
	testenv.Until(w.t, "new files", w.equal)
	big, deep := inode("big"), inode("a/b/c/deep")
	os.Rename(in("big"), in("a/other"))
	testenv.Until(w.t, "a rename", w.equal)
	if got := inode("a/other"); got != big {
		t.Errorf("the file was copied, and not renamed")
	}
	os.Rename(in("a"), in("z"))
	testenv.Until(w.t, "a directory's rename", w.equal)
	if got := inode("z/b/c/deep"); got != deep {
		t.Errorf("the directory was copied, and not renamed")
	}
	writeFile(t, in("z/b/c/after"), []byte("the directory was renamed"))
	testenv.Until(w.t, "a file in a directory that was renamed", w.equal)
	for i := range 5 { // as editors save: of the same size, within a second
		writeFile(t, in(".first.swp"), []byte(fmt.Sprintf("save%d", i)))
		os.Rename(in(".first.swp"), in("first"))
		testenv.Until(w.t, "an editor's save", w.equal)
	}
	os.RemoveAll(in("z/b"))
	os.Chmod(in("first"), 0o600)
	testenv.Until(w.t, "a deletion", w.equal)
	os.Chmod(in("z"), 0o700)
	testenv.Until(w.t, "a directory's permissions", w.equal)
	if strings.Contains(w.out.String(), "cannot") {
		t.Error("something went wrong")
	}
}

// A host that cannot be reached at first ends it, as it ends any other command.
func TestWatchWithoutHost(t *testing.T) {
	t.Parallel()
	sshd := opensshd.Start(t, opensshd.Options{})
	dir := t.TempDir()
	if o := run(t, dir, "sync", "--watch", "-F", sshd.ConfigFile, "-P", "1", dir,
		"testhost:there"); o.code != 255 || strings.Contains(o.stderr, "again") {
		t.Errorf("%+v", o)
	}
}

// A login that only a person can replace, as the system's ssh may ask one, is made again when the
// connection is lost.
func TestWatchBySSH(t *testing.T) {
	t.Parallel()
	sshd := opensshd.Start(t, opensshd.Options{})
	proxy := cutproxy.Start(t, sshd.Addr())
	w := newWatch(t, sshd, proxy, "--ssh")
	w.cmd.Env = append(w.cmd.Env, "SSH_ASKPASS=true", "SSH_ASKPASS_REQUIRE=force")
	w.start()
	proxy.Cut()
	writeFile(t, filepath.Join(w.src, "second"), []byte("second"))
	testenv.Until(w.t, "a change after the loss", w.equal)
}

// A thousand random changes (or two hundred) while every hundredth loses the connection: in the end
// both sides are equal, and after the last change at most 5 s go into waiting to try again. The
// time of the work itself, on a busy machine, does not count.
func TestWatchOverABadLink(t *testing.T) {
	t.Parallel()
	sshd := opensshd.Start(t, opensshd.Options{})
	rng := rand.New(rand.NewPCG(1, 1))
	proxy := cutproxy.Start(t, sshd.Addr())
	w := startWatch(t, sshd, proxy, "--delete", "--max-delete=100000")
	names := func(dirs bool) (all []string) {
		filepath.WalkDir(w.src, func(name string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() == dirs {
				all = append(all, name)
			}
			return nil
		})
		return all
	}
	pick := func(all []string) string { return all[rng.IntN(len(all))] }
	lost := 0
	for i := range soak.Pick(200, 1000) {
		if i%100 == 99 {
			testenv.Until(w.t, "the connection is replaced", func() bool {
				return proxy.Connections() > lost
			})
			proxy.Cut()
			lost++
		}
		files, dirs := names(false), names(true)
		if len(files) == 0 {
			files = []string{filepath.Join(w.src, "first")}
		}
		fresh := filepath.Join(pick(dirs), fmt.Sprint("n", i))
		switch rng.IntN(9) {
		case 0:
			os.Mkdir(fresh, 0o755)
		case 1:
			os.Symlink(fmt.Sprint(rng.IntN(10)), fresh)
		case 2:
			os.Remove(pick(files))
		case 3:
			os.Rename(pick(files), fresh)
		case 4:
			if dir := pick(dirs); dir != w.src && rng.IntN(3) == 0 {
				os.RemoveAll(dir)
			} else if dir != w.src {
				os.Rename(dir, filepath.Join(w.src, fmt.Sprint("d", i)))
			}
		case 5:
			os.Chmod(pick(files), 0o600+fs.FileMode(rng.IntN(0o100)))
		case 6: // same size, most likely the same second
			os.WriteFile(pick(files), []byte(fmt.Sprintf("%04d", i)), 0o644)
		default:
			os.WriteFile(fresh, []byte(fmt.Sprintf("%04d", i)), 0o644)
		}
		if i%20 == 19 {
			time.Sleep(100 * time.Millisecond) // changes spread over time, as people make them
		}
	}
	said := len(w.out.String())
	began := time.Now()
	testenv.Until(t, "the trees are equal", w.equal)
	took := time.Since(began)
	waits := time.Duration(0)
	for _, m := range regexp.MustCompile(
		`(?:comparing everything again|trying again|reconnecting) in ([0-9.]+ s|[0-9.a-z]+)`).FindAllStringSubmatch(w.out.String()[said:], -1) {
		wait, err := time.ParseDuration(strings.ReplaceAll(m[1], " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		waits += wait
	}
	t.Logf("equal %v after the last change, of which it waited %v", took, waits)
	if waits > 5*time.Second {
		t.Errorf("after the last change it waited %v to try again", waits)
	}
}
