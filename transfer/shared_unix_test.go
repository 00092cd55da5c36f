//go:build unix

package transfer_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
)

// TestSharedRefusesPipes: each copy would get only part of what comes through a pipe.
func TestSharedRefusesPipes(t *testing.T) {
	shared := transfer.NewShared(0)
	defer shared.Close()
	b := newBench(t, sftptest.Script{}, sftptest.LinkConfig{})
	pipe := filepath.Join(b.dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := transfer.Copy(t.Context(), transfer.Remote(b.host, "/target"), shared.Local(pipe),
		transfer.Options{})
	if err == nil || !strings.Contains(err.Error(), "Shared.Reader") {
		t.Errorf("got %v", err)
	}
	_, err = transfer.Copy(t.Context(), transfer.Remote(b.host, "/target"),
		shared.Local(filepath.Join(b.dir, "none")), transfer.Options{})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a missing file: %v", err)
	}
}
