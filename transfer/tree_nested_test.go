package transfer_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/usftp/usftp/dial"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/sftptest/opensshd"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// TestTreeIntoItself: a tree is not copied into itself, whichever end turns out to be the other's
// machine. One that merely has the same paths on another machine is copied.
func TestTreeIntoItself(t *testing.T) {
	t.Parallel()
	sshd := opensshd.Start(t, opensshd.Options{})
	var hosts [2]pool.Host
	for i := range hosts {
		login, err := pool.Connect(t.Context(), dial.Target{Host: sshd.Alias},
			pool.ConnectConfig{Dial: &dial.Config{ConfigFile: sshd.ConfigFile}})
		if err != nil {
			t.Fatal(err)
		}
		defer login.Close()
		hosts[i] = login.Host()
	}
	one, two := hosts[0], hosts[1]
	tree := filepath.Join(t.TempDir(), "tr")
	data := bytes.Repeat([]byte("data"), 1000)
	if err := os.MkdirAll(filepath.Join(tree, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(tree, "file"), data, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, run := range map[string]func(target string) (transfer.Summary, error){
		"upload": func(target string) (transfer.Summary, error) {
			return uploadTree(t.Context(), one, tree, target, transfer.Options{})
		},
		"download": func(target string) (transfer.Summary, error) {
			return downloadTree(t.Context(), one, tree, target, transfer.Options{})
		},
		"relay": func(target string) (transfer.Summary, error) {
			return relayTree(t.Context(), one, tree, two, target, transfer.Options{})
		},
	} {
		for _, target := range []string{"sub", "new"} {
			t.Run(name+" to "+target, func(t *testing.T) {
				s, err := run(filepath.Join(tree, target))
				if err == nil || !strings.Contains(err.Error(), "into itself") || s.Files > 0 {
					t.Errorf("%+v, %v", s, err)
				}
				entries, err := os.ReadDir(filepath.Join(tree, "sub"))
				if err != nil || len(entries) > 0 {
					t.Errorf("%d entries in sub, %v", len(entries), err)
				}
				if _, err := os.Lstat(filepath.Join(tree, "new")); err == nil {
					t.Error("the target was made all the same")
				}
			})
		}
	}
	t.Run("another machine", func(t *testing.T) {
		b := newBench(t, sftptest.Script{}, sftptest.LinkConfig{})
		b.server.Files.Mkdir(tree + "/sub")
		s, err := uploadTree(t.Context(), b.host, tree, tree+"/sub", transfer.Options{})
		if err != nil || s.Files != 1 || !bytes.Equal(b.remote(tree+"/sub/tr/file"), data) {
			t.Errorf("%+v, %v", s, err)
		}
		if left := b.temporaries(); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	})
	t.Run("a machine without the source", func(t *testing.T) { // and where nothing can be removed
		b := newBench(t, sftptest.Script{Refuse: []wire.Type{wire.TypeRemove}}, sftptest.LinkConfig{})
		b.server.Files.Mkdir(filepath.Dir(tree))
		s, err := uploadTree(t.Context(), b.host, tree, tree, transfer.Options{})
		if err != nil || s.Files != 1 || !bytes.Equal(b.remote(tree+"/file"), data) {
			t.Errorf("%+v, %v", s, err)
		}
		if left := b.temporaries(); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	})
}

// TestTemporaryFilesOfACopyUnderWayAreNotCopied: if the target is the source under an unrelated
// name, the copy does not copy its own temporary files.
func TestTemporaryFilesOfACopyUnderWayAreNotCopied(t *testing.T) {
	b := newBench(t, sftptest.Script{}, sftptest.LinkConfig{})
	if err := os.Mkdir(filepath.Join(b.dir, "tree"), 0o755); err != nil {
		t.Fatal(err)
	}
	b.local("tree/.big.usftp-0123abcd4567", []byte("half"))
	old := b.local("tree/.old.usftp-0123abcd4567", []byte("half"))
	if err := os.Chtimes(old, oldTime, oldTime); err != nil {
		t.Fatal(err)
	}
	s, err := uploadTree(t.Context(), b.host, filepath.Join(b.dir, "tree"), "/copy",
		transfer.Options{})
	if err != nil || s.Files != 1 || s.Skipped != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	if b.server.Files.Exists("/copy/.big.usftp-0123abcd4567") {
		t.Error("a temporary file was copied")
	}
}

// TestTreeIntoItselfUnderAnotherPath: a server that shows only part of this machine, as in a
// chroot, uses an unrelated path for a directory in the source. The copy ends when it meets itself.
func TestTreeIntoItselfUnderAnotherPath(t *testing.T) {
	for name, way := range map[string]way{"upload": upload, "download": download, "relay": relay} {
		for _, exactly := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, exactly %t", name, exactly), func(t *testing.T) {
				outer, tree := ourHost(t)
				if err := os.Mkdir(filepath.Join(tree, "sub"), 0o755); err != nil {
					t.Fatal(err)
				}
				inner := hostIn(t, filepath.Join(tree, "sub"))
				if err := os.WriteFile(filepath.Join(tree, "file"), []byte("data"),
					0o644); err != nil {
					t.Fatal(err)
				}
				j := treeJob{Host: inner, From: outer, Direction: way, Source: tree, Target: "/new"}
				if exactly {
					j.Target, j.Options.NoTargetDirectory = "/", true
				}
				switch way {
				case download:
					j.Host, j.Source = outer, "/"
					j.Target = filepath.Join(tree, "sub", j.Target)
				case relay:
					j.Source = "/"
				}
				s, err := j.Run(t.Context())
				if err == nil || !strings.Contains(err.Error(), "into itself") || s.Files > 1 {
					t.Errorf("%+v, %v", s, err)
				}
				deep, _ := filepath.Glob(filepath.Join(tree, "sub", "*", "*", "*", "*"))
				if len(deep) > 0 {
					t.Errorf("%q were copied", deep)
				}
				filepath.WalkDir(tree, func(name string, _ os.DirEntry, _ error) error {
					if strings.Contains(name, ".usftp-") {
						t.Errorf("%s is left", name)
					}
					return nil
				})
			})
		}
	}
}
