package dial

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

func TestMemory(t *testing.T) {
	m := newMemory(&Config{StateDir: filepath.Join(t.TempDir(), "a", "b")})
	host := newSigner(t).PublicKey()
	print := ssh.FingerprintSHA256(host)
	if m.key("u", 22, host) != "" || m.refuses(host) {
		t.Error("an empty memory knows something")
	}
	m.noteKey("u", 22, host, print)
	m.noteRefusal(host)
	if m.key("u", 22, host) != print || m.key("v", 22, host) != "" || m.key("u", 23, host) != "" ||
		!m.refuses(host) || m.refuses(newSigner(t).PublicKey()) {
		t.Error("it is not as it was noted")
	}
	for when, want := range map[string]bool{"-": false, "0": false, "9223372036854775807": false,
		"-9223372036854775808": false, fmt.Sprint(time.Now().Unix()): true,
		fmt.Sprint(time.Now().Add(-stepwiseFor).Unix()):    false,
		fmt.Sprint(time.Now().Add(time.Hour).Unix()):       false,
		fmt.Sprint(time.Now().Add(-24 * time.Hour).Unix()): true} {
		m.put(note{noteStepwise, about("", 0, host), when})
		if m.refuses(host) != want {
			t.Errorf("a refusal noted at %s: %v", when, !want)
		}
	}
	for i := range 2 * maxMemory {
		m.noteKey("u", i, host, print)
		m.noteKey("stays", 22, host, print) // in use
	}
	if n := len(m.read()); n != maxMemory {
		t.Errorf("%d notes are kept", n)
	}
	if m.key("u", 0, host) != "" || m.key("u", 2*maxMemory-1, host) == "" ||
		m.key("stays", 22, host) == "" {
		t.Error("not the oldest were dropped")
	}
	if fi, err := os.Stat(m.file); err != nil || fi.Size() > maxMemoryFile {
		t.Errorf("%v, %v", fi, err)
	}
	m.forgetKey("stays", 22, host)
	if m.key("stays", 22, host) != "" {
		t.Error("what was forgotten is known")
	}
	left, err := os.ReadDir(filepath.Dir(m.file))
	if err != nil || len(left) != 1 {
		t.Errorf("left are %v, %v", left, err)
	}
	// Where it cannot be written, and where there is none, a login continues.
	os.Remove(m.file)
	if err := os.Mkdir(m.file, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, m := range []*memory{m, newMemory(&Config{})} {
		m.noteKey("u", 22, host, print)
		m.noteRefusal(host)
		m.forgetKey("u", 22, host)
		if m.key("u", 22, host) != "" || m.refuses(host) {
			t.Error("it remembers in a directory")
		}
	}
}

func FuzzMemory(f *testing.F) {
	note := strings.Repeat("A", 43)
	f.Add([]byte(memoryFormat + "\nkey " + note + " SHA256:" + note + "\nstepwise " + note +
		" 1700000000\nstepwise " + note + " -\n"))
	f.Add([]byte(memoryFormat + "\nkey\n\nkey  \nkey x SHA256:y\nelse " + note + " -\n"))
	f.Add([]byte("usftp logins 2\nkey " + note + " SHA256:" + note + "\n"))
	f.Add([]byte(fmt.Sprint(memoryFormat, "\n", strings.Repeat("x", maxMemoryFile))))
	f.Fuzz(func(t *testing.T, text []byte) {
		notes := parseMemory(text)
		if len(notes) > maxMemory {
			t.Fatalf("%d notes", len(notes))
		}
		for _, n := range notes {
			if !n.good() || strings.ContainsAny(n.value, " \n\r") {
				t.Fatalf("%+v", n)
			}
		}
		out := renderMemory(notes)
		if len(out) > maxMemoryFile || !slices.Equal(parseMemory(out), notes) ||
			!bytes.HasPrefix(out, []byte(memoryFormat+"\n")) {
			t.Fatalf("%q became %q", text, out)
		}
	})
}
