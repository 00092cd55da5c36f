package sftptest

import (
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/wire"
)

func TestScriptedConforms(t *testing.T) {
	all := append(OpenSSHExtensions(),
		wire.ExtensionPair{Name: wire.ExtCheckFileHandle,
			Data: "1"}, wire.ExtensionPair{Name: wire.ExtCheckFileName, Data: "1"})
	for name, c := range map[string]struct {
		script Script
		link   LinkConfig
	}{
		"Plain":     {script: Script{Extensions: all}},
		"Bytewise":  {script: Script{Extensions: all}, link: LinkConfig{MaxPiece: 1}},
		"Reordered": {script: Script{Reorder: 7, Seed: 1, RandomReads: true}},
		"Unusual": {script: Script{ShortReads: 1000, ReaddirNames: 3, BareStatus: true,
			DraftSymlink: true, HandleSize: 256, Home: "/home/user"}},
	} {
		t.Run(name, func(t *testing.T) {
			server := NewServer(t, c.script)
			server.Files.Mkdir("/cases")
			Conformance{
				Dial:         func(testing.TB) io.ReadWriteCloser { return server.Dial(c.link) },
				Dir:          "/cases",
				DraftSymlink: c.script.DraftSymlink,
			}.Run(t)
		})
	}
}

// TestOpenSSHConforms: if the cases do not accept the server that everyone has, they are wrong.
func TestOpenSSHConforms(t *testing.T) {
	program := opensshServer(t)
	Conformance{
		Dial: func(t testing.TB) io.ReadWriteCloser { return dialProgram(t, program) },
		Dir:  t.TempDir(),
		Skip: map[string]string{
			"UnknownType": "it takes up the packet behind one that it did not answer only when more input comes",
		},
	}.Run(t)
}

// opensshServer returns the path of sftp-server, or skips the test.
func opensshServer(t *testing.T) string {
	const program = "/usr/lib/openssh/sftp-server"
	if _, err := os.Stat(program); err != nil {
		testenv.Unavailable(t, err)
	}
	return program
}

// program is a server that is a process, on pipes.
type program struct {
	io.Reader
	io.WriteCloser
}

func dialProgram(t testing.TB, path string) io.ReadWriteCloser {
	cmd := exec.Command(path, "-e")
	in, out := testenv.Pipes(t, cmd)
	t.Cleanup(func() {
		in.Close()
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait() // it fails if the case made the server give up
	})
	return program{out, in}
}
