//go:build unix

package scpclient

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A swapper agrees to everything, and does something once it is told of a directory.
type swapper struct {
	bytes.Buffer
	at string
	do func() error
}

func (*swapper) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func (s *swapper) Write(p []byte) (int, error) {
	if strings.HasPrefix(string(p), "D") && strings.HasSuffix(string(p), s.at+"\n") {
		if err := s.do(); err != nil {
			return 0, err
		}
	}
	return s.Buffer.Write(p)
}

// TestLinkTakesADirectorysPlace: with SkipLinks no link that somebody puts into a directory's place
// while it is copied leads to anything else.
func TestLinkTakesADirectorysPlace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "t/d/f"), "mine")
	write(t, filepath.Join(dir, "outside/f"), "secret")
	peer := &swapper{at: " d", do: func() error {
		return errors.Join(os.Rename(filepath.Join(dir, "t/d"), filepath.Join(dir, "moved")),
			os.Symlink(filepath.Join(dir, "outside"), filepath.Join(dir, "t/d")))
	}}
	l := new(log)
	err := Send(t.Context(), peer, []string{filepath.Join(dir, "t")}, "/srv", true,
		Options{Recursive: true, SkipLinks: true}, l)
	if sent := peer.String(); err != nil || strings.Contains(sent, "secret") ||
		!strings.Contains(sent, "mine") {
		t.Errorf("%v, it said %q, and sent %q", err, l.said, sent)
	}
}

// TestSomethingElseInItsPlace: what was looked at is opened, and nothing else; a named pipe would
// be waited for.
func TestSomethingElseInItsPlace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "moved/f"), "mine")
	write(t, filepath.Join(dir, "outside/f"), "secret")
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	found, err := os.Stat(filepath.Join(dir, "moved/f"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, filepath.Join(dir, "outside/f")} {
		if file, err := (item{path: path}).open(found); err != errReplaced {
			file.Close()
			t.Errorf("%s is opened in place of another file: %v", path, err)
		}
	}
	if file, err := overwrite(rootOf(t, dir), "pipe", found, 0, false); err == nil {
		file.Close()
		t.Error("a named pipe is opened to be written in place of another file")
	}
	if root, err := (item{path: filepath.Join(dir, "outside")}).root(found); err != errReplaced {
		root.Close()
		t.Errorf("another directory is opened: %v", err)
	}
}

// TestFileWithOtherNames: such a file is written in place, as by scp, so that all of its names have
// what was copied. It is cut only when all has arrived.
func TestFileWithOtherNames(t *testing.T) {
	t.Parallel()
	for says, want := range map[string]string{
		"T1000 0 1000 0\nC0640 2 f\nhi\x00": "hi",  // shorter than what was there
		"C0640 9 f\nhi":                     "hid", // the host has gone away
	} {
		dir := t.TempDir()
		file, other := filepath.Join(dir, "f"), filepath.Join(dir, "other")
		write(t, file, "old")
		if err := os.Link(file, other); err != nil {
			t.Fatal(err)
		}
		err := Receive(t.Context(), &script{Reader: strings.NewReader(says)},
			wantOf(rootOf(t, dir), "f"), Options{Modes: true, Times: true}, new(log))
		if (err == nil) != (want == "hi") {
			t.Errorf("%q ends with %v", says, err)
		}
		info, lookErr := os.Stat(other)
		if got, err := os.ReadFile(other); err != nil || lookErr != nil || string(got) != want {
			t.Errorf("%q: the other name has %q, %v", says, got, err)
		}
		if err == nil && (info.Mode().Perm() != 0o640 || info.ModTime().Unix() != 1000) {
			t.Errorf("%q: it has %v, %v", says, info.Mode(), info.ModTime())
		}
		if entries, _ := os.ReadDir(dir); len(entries) != 2 {
			t.Errorf("%q: there is %v", says, entries)
		}
	}
}
