package usftp_test

import (
	"io/fs"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// TestNamedPipesAreNotWaitedFor: nothing that opens a file by itself waits for a named pipe.
func TestNamedPipesAreNotWaitedFor(t *testing.T) {
	for name, do := range map[string]func(c *usftp.Client) error{
		"CopyFile from": func(c *usftp.Client) error { _, err := c.CopyFile("/pipe", "/f"); return err },
		"CopyFile to":   func(c *usftp.Client) error { _, err := c.CopyFile("/f", "/pipe"); return err },
		"CheckFile": func(c *usftp.Client) error {
			_, err := c.CheckFile("/pipe", usftp.CheckFile{})
			return err
		},
		"ReadFile": func(c *usftp.Client) error { _, err := c.ReadFile("/pipe"); return err },
		"FS.Open":  func(c *usftp.Client) error { _, err := c.DirFS("/").Open("pipe"); return err },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, sftptest.Script{Extensions: []wire.ExtensionPair{
					{Name: wire.ExtCheckFile, Data: "sha256"}}}, 0)
				for _, file := range []string{"/f", "/pipe"} {
					r.server.Files.WriteFile(file, nil)
				}
				ok(t, r.server.Files.SetMode("/pipe", fs.ModeNamedPipe|0o644))
				r.server.AddFaults(sftptest.Fault{On: wire.TypeOpen, Path: "/pipe",
					Do: sftptest.Hold(new(sftptest.Gate))})
				ended := make(chan error, 1)
				go func() { ended <- do(r.Client) }()
				synctest.Wait()
				select {
				case err := <-ended:
					if err == nil || !strings.Contains(err.Error(), "named pipe") {
						t.Error(err)
					}
				default:
					t.Error("it waits")
				}
			})
		})
	}
}

// Servers wait in OPEN until somebody writes to a named pipe, and then cannot read it. The
// attributes, which come first, say what it is.
func TestOpenReadOfANamedPipe(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftptest.Script{}, 0)
		r.server.Files.WriteFile("/pipe", nil)
		ok(t, r.server.Files.SetMode("/pipe", fs.ModeNamedPipe|0o644))
		gate := new(sftptest.Gate)
		r.server.AddFaults(sftptest.Fault{On: wire.TypeOpen, Do: sftptest.Hold(gate)})
		f, err := r.OpenRead("/pipe")
		if err == nil || !strings.Contains(err.Error(), "named pipe") {
			t.Errorf("%v, %v", f, err)
		}
		gate.Open()
		synctest.Wait()
		if open := r.server.OpenHandles(); open != 0 { // the OPEN was answered after all
			t.Errorf("%d handles are open", open)
		}
	})
}
