package transfer_test

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/usftp/usftp/dial"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// The request expected first is sent along with the session's first packet, and not again; if
// something else is asked first, the hint changes nothing.
func TestFirstRequest(t *testing.T) {
	sshd := opensshd.Start(t, opensshd.Options{})
	dir := t.TempDir()
	tree, file := filepath.Join(dir, "tree"), filepath.Join(dir, "tree", "file")
	if err := os.Mkdir(tree, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, random(5000), 0o600); err != nil {
		t.Fatal(err)
	}
	// So old that nothing is asked to find out whether it is still being written.
	old := time.Now().AddDate(0, 0, -7)
	if err := os.Chtimes(file, old, old); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(dir, "missing")
	// dir stands for the target, which differs each time.
	for name, test := range map[string]struct {
		config    pool.ConnectConfig
		direction way
		source    string
		tree      bool
		more      int64 // requests than without it
		fails     error
	}{
		"file down": {pool.ConnectConfig{Source: file}, download, file, false,
			0, nil},
		"file up": {pool.ConnectConfig{Look: dir}, upload, file, false, 0,
			nil},
		"tree down": {pool.ConnectConfig{Look: tree}, download, tree, true, 1,
			nil},
		"tree up": {pool.ConnectConfig{Look: dir}, upload, tree, true, 1,
			nil},
		"not there": {pool.ConnectConfig{Source: missing}, download, missing,
			false, 0, fs.ErrNotExist},
		"another file": {pool.ConnectConfig{Source: missing}, download, file,
			false, 2, nil},
		"looked, then read": {pool.ConnectConfig{Look: file}, download, file, false, 2,
			nil},
	} {
		t.Run(name, func(t *testing.T) {
			count := func(config pool.ConnectConfig) int64 {
				config.Dial = &dial.Config{ConfigFile: sshd.ConfigFile}
				target := t.TempDir()
				if config.Look == dir {
					config.Look = target
				}
				login, err := pool.Connect(t.Context(), dial.Target{Host: sshd.Alias}, config)
				if err != nil {
					t.Fatal(err)
				}
				defer login.Close()
				host := login.Host()
				if test.tree {
					copying := treeJob{Host: host, Direction: test.direction,
						Source: test.source, Target: target}
					if test.direction == upload {
						copying.Source = t.TempDir()
					}
					_, err = copying.Run(t.Context())
				} else {
					copying := copyJob{Host: host, Direction: test.direction,
						Source: test.source, Target: target}
					_, err = copying.Run(t.Context())
				}
				if !errors.Is(err, test.fails) {
					t.Fatal(err)
				}
				host.Client.Stat(dir) // comes after requests nobody has waited for
				return host.Client.Stats().Requests
			}
			// A copy that takes half a second also asks the host what limits it, so the least of
			// some counts is the right one.
			requests := [2]int64{math.MaxInt64, math.MaxInt64}
			for range 10 {
				for i, config := range []pool.ConnectConfig{{}, test.config} {
					requests[i] = min(requests[i], count(config))
				}
				if requests[1]-requests[0] == test.more {
					return
				}
			}
			t.Errorf("%d requests, and %d without asking ahead; want %d more", requests[1],
				requests[0], test.more)
		})
	}
}
