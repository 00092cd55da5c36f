package servers

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/usftp/usftp/bench/rows"
	"github.com/usftp/usftp/bench/sshd"
	"github.com/usftp/usftp/internal/testenv"
)

// TestServersServe has the same client fetch a file, and bring one, by both protocols at every
// server.
func TestServersServe(t *testing.T) {
	dir := t.TempDir()
	usftpd := filepath.Join(t.TempDir(), "usftpd")
	if out, err := exec.Command("go", "build", "-C", "../../service", "-o", usftpd,
		"./cmd/usftpd").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	rig, err := NewRig(Config{Dir: dir, Usftpd: usftpd})
	if errors.Is(err, sshd.ErrNoServer) {
		testenv.Unavailable(t, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := rig.Close(); err != nil {
			t.Error(err)
		}
	}()
	// so much that it takes ticks of the kernel's clock
	served := bytes.Repeat([]byte("what is served\n"), 1<<20)
	if err := os.WriteFile(filepath.Join(dir, "source"), served, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range rows.Servers() {
		t.Run(name, func(t *testing.T) {
			server, err := rig.Start(name)
			if errors.Is(err, ErrAbsent) && name == rows.SFTPGo {
				t.Skip(err) // no distribution has it
			}
			if errors.Is(err, ErrAbsent) {
				testenv.Unavailable(t, err)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := server.Close(); err != nil {
					t.Error(err)
				}
			}()
			for _, flags := range []string{"-q", "-qO"} {
				got, back := filepath.Join(dir, "got"), filepath.Join(dir, "back")
				for _, words := range [][]string{{"host:" + server.Root + "/source", got},
					{got, "host:" + server.Root + "/back"}} {
					arguments := append([]string{flags, "-F", server.ClientConfig}, words...)
					if out, err := exec.Command("scp", arguments...).CombinedOutput(); err != nil {
						t.Fatalf("scp %v: %v: %s", arguments, err, out)
					}
				}
				if text, err := os.ReadFile(back); err != nil || !bytes.Equal(text, served) {
					t.Errorf("%s: %d bytes came back changed (%v)", flags, len(text), err)
				}
				if err := errors.Join(os.Remove(got), os.Remove(back)); err != nil {
					t.Error(err)
				}
			}
			if spent, err := server.Processor(); err != nil || spent <= 0 {
				t.Errorf("processor time: %v (%v)", spent, err)
			}
			if resident, peak := server.Memory(); resident <= 0 || peak < resident {
				t.Errorf("memory: %d KiB, at most %d KiB", resident, peak)
			}
		})
	}
}
