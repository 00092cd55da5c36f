package verb

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// A rig is an Env whose output is captured.
type rig struct {
	*Env
	out  bytes.Buffer
	said []string
}

func newRig(client *usftp.Client) *rig {
	r := &rig{Env: &Env{Client: client}}
	r.Out = &r.out
	r.Say = func(line string) { r.said = append(r.said, line) }
	return r
}

// take returns and clears what was printed on both streams.
func (r *rig) take() (out, said string) {
	out, said = r.out.String(), strings.Join(r.said, "\n")
	r.out.Reset()
	r.said = nil
	return out, said
}

// openSSH is a version line that says the server works in order.
const openSSH = "SSH-2.0-OpenSSH_9.2p1 Debian-2"

// clientOf returns a client of the server at the other end of a stream.
func clientOf(t testing.TB, stream io.ReadWriteCloser,
	options ...usftp.ClientOption) *usftp.Client {
	t.Helper()
	client, err := usftp.NewClientPipe(stream, stream, options...)
	ok(t, err)
	t.Cleanup(func() { client.Close() })
	return client
}

// startServer runs OpenSSH's sftp-server on pipes, with paths that start in dir.
func startServer(t testing.TB, dir string) *usftp.Client {
	t.Helper()
	cmd := exec.Command(opensshd.Find(t, "sftp-server"), "-e", "-d", dir)
	cmd.Dir = dir
	w, r := testenv.Pipes(t, cmd)
	client, err := usftp.NewClientPipe(r, w, usftp.WithServerVersion(openSSH))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		cmd.Wait()
	})
	return client
}

// tool runs a program in a directory, with names sorted by their bytes, and returns its output and
// exit code.
func tool(t testing.TB, dir, name string, args ...string) (stdout string, code int) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

// A shape is a tree of 20,000 files.
type shape struct {
	name string
	path func(i int) string
}

var shapes = []shape{
	{"wide", func(i int) string { return fmt.Sprintf("/t/%05d", i) }},
	{"directories", func(i int) string { return fmt.Sprintf("/t/%03d/%03d", i/100, i%100) }},
	{"deep", func(i int) string {
		return "/t" + strings.Repeat("/m", i/167) + fmt.Sprintf("/%03d", i%167)
	}},
}

const (
	manyFiles = 5_000
	roundTrip = 50 * time.Millisecond
)

// onShape runs f in a bubble with a client of a server that holds the tree /t.
func onShape(t *testing.T, s shape, version string, f func(r *rig, server *sftptest.Scripted)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := sftptest.NewScripted(sftptest.Script{ReaddirNames: 100})
		for i := range manyFiles {
			server.Files.WriteFile(s.path(i), nil)
		}
		defer server.Close()
		link := server.Dial(sftptest.LinkConfig{ToServer: roundTrip / 2, ToClient: roundTrip / 2})
		f(newRig(clientOf(t, link, usftp.WithServerVersion(version))), server)
	})
}

// trips returns how many round trips f takes, by the clock of the bubble.
func trips(f func()) float64 {
	began := time.Now()
	f()
	return float64(time.Since(began)) / float64(roundTrip)
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// modesDir is TempDir for a test that changes modes: users other than root could not remove what is
// in a directory that they may not read.
func modesDir(t testing.TB) string {
	dir := t.TempDir()
	t.Cleanup(func() {
		filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				os.Chmod(name, 0o700)
			}
			return nil
		})
	})
	return dir
}

func writeFile(t testing.TB, name, content string) {
	t.Helper()
	ok(t, os.MkdirAll(filepath.Dir(name), 0o755))
	ok(t, os.WriteFile(name, []byte(content), 0o644))
}

// background is a context from outside of any bubble.
var background = context.Background()

type scripted = sftptest.Scripted
