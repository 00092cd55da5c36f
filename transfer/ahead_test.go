package transfer_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/usftp/usftp/dial"
	"github.com/usftp/usftp/sftptest/opensshd"
	"github.com/usftp/usftp/transfer"
)

// What is known to be asked first is asked with the session's first request, and not again; and
// where something else is asked first, that changes nothing.
func TestAskedAhead(t *testing.T) {
	sshd := opensshd.Start(t, opensshd.Options{})
	dir := t.TempDir()
	tree, file := filepath.Join(dir, "tree"), filepath.Join(dir, "tree", "file")
	if err := os.Mkdir(tree, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, random(5000), 0o600); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(dir, "missing")
	// dir stands for the target, which is another one each time.
	for name, test := range map[string]struct {
		config    transfer.ConnectConfig
		direction transfer.Direction
		source    string
		tree      bool
		more      int64 // requests than without it
		fails     error
	}{
		"file down": {transfer.ConnectConfig{Source: file}, transfer.Download, file, false,
			0, nil},
		"file up": {transfer.ConnectConfig{Look: dir}, transfer.Upload, file, false, 0,
			nil},
		"tree down": {transfer.ConnectConfig{Look: tree}, transfer.Download, tree, true, 1,
			nil},
		"tree up": {transfer.ConnectConfig{Look: dir}, transfer.Upload, tree, true, 1,
			nil},
		"not there": {transfer.ConnectConfig{Source: missing}, transfer.Download, missing,
			false, 0, fs.ErrNotExist},
		"another file": {transfer.ConnectConfig{Source: missing}, transfer.Download, file,
			false, 2, nil},
		"looked, then read": {transfer.ConnectConfig{Look: file}, transfer.Download, file, false, 2,
			nil},
	} {
		t.Run(name, func(t *testing.T) {
			var requests [2]int64
			for i, config := range []transfer.ConnectConfig{{}, test.config} {
				config.Dial = &dial.Config{ConfigFile: sshd.ConfigFile}
				target := t.TempDir()
				if config.Look == dir {
					config.Look = target
				}
				login, err := transfer.Connect(t.Context(), dial.Target{Host: sshd.Alias}, config)
				if err != nil {
					t.Fatal(err)
				}
				defer login.Close()
				host := login.Host()
				if test.tree {
					copying := transfer.Tree{Host: host, Direction: test.direction,
						Source: test.source, Target: target}
					if test.direction == transfer.Upload {
						copying.Source = t.TempDir()
					}
					_, err = copying.Run(t.Context())
				} else {
					copying := transfer.Job{Host: host, Direction: test.direction,
						Source: test.source, Target: target}
					_, err = copying.Run(t.Context())
				}
				if !errors.Is(err, test.fails) {
					t.Fatal(err)
				}
				host.Client.Stat(dir) // behind what nobody has waited for
				requests[i] = host.Client.Stats().Requests
			}
			if more := requests[1] - requests[0]; more != test.more {
				t.Errorf("%d requests, and %d without asking ahead; want %d more", requests[1],
					requests[0], test.more)
			}
		})
	}
}
