//go:build unix

package dial

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/usftp/usftp/sftptest/opensshd"
)

func TestSystem(t *testing.T) {
	srv := opensshd.Start(t, opensshd.Options{})
	command := opensshd.Find(t, "ssh")
	d, err := New(testContext(t), Target{Host: srv.Alias},
		&Config{ConfigFile: srv.ConfigFile, SSH: `"` + command + `" -q`})
	if err != nil {
		t.Fatal(err)
	}
	conn := dialed(t, d)
	first, second := open(t, conn), open(t, conn)
	if conn.SSH() != nil || conn.ServerVersion() != "" ||
		!errors.Is(conn.Keepalive(testContext(t)), errors.ErrUnsupported) {
		t.Error("the system's ssh looks like the native one")
	}
	first.Close()
	if status, ok := first.ExitStatus(); !ok || status != 0 {
		t.Errorf("ssh ended with %d, %v: %s", status, ok, first.Stderr())
	}
	greetAgain := second // still there
	if _, err := greetAgain.Write([]byte{0, 0, 0, 5, 17, 0, 0, 0, 1}); err != nil {
		t.Error(err)
	}
	conn.Close()
	if _, err := io.Copy(io.Discard, second); err == nil {
		t.Error("a stream outlived its connection")
	}
	if _, err := conn.Open(testContext(t)); !errors.Is(err, ErrClosed) {
		t.Errorf("Open after Close: %v", err)
	}
	none(t)
}

// TestSystemSpeaks: what ssh says to a person is shown if there is one.
func TestSystemSpeaks(t *testing.T) {
	banner := writeFile(t, t.TempDir()+"/banner", "approve it at https://h/\n")
	srv := opensshd.Start(t, opensshd.Options{Config: []string{"Banner " + banner}})
	for _, person := range []bool{false, true} {
		var shown bytes.Buffer
		c := &Config{ConfigFile: srv.ConfigFile, SSH: "ssh", Logger: slog.New(slog.NewTextHandler(
			&shown, &slog.HandlerOptions{Level: slog.LevelWarn}))}
		if person {
			c.Prompter = new(script)
		}
		conn := connect(t, Target{Host: srv.Alias}, c)
		open(t, conn)
		conn.Close()
		if strings.Contains(shown.String(), "approve it at https://h/") != person {
			t.Errorf("to a person, %v: %q", person, shown.String())
		}
	}
}

func TestSystemFails(t *testing.T) {
	srv := opensshd.Start(t, opensshd.Options{NoKnownHosts: true})
	conn := connect(t, Target{Host: srv.Alias}, &Config{ConfigFile: srv.ConfigFile, SSH: "ssh"})
	s := opened(t, conn)
	_, err := io.ReadAll(s)
	var sub *SubsystemError
	if !errors.As(err, &sub) || sub.ExitStatus != 255 ||
		!strings.Contains(err.Error(), "Host key verification failed") ||
		strings.Contains(err.Error(), "does not offer SFTP") || errors.Is(err, ErrNoSFTP) {
		t.Errorf("got %v", err)
	}
	if _, err := New(testContext(t), Target{Host: "h"}, &Config{SSH: "'open"}); err == nil {
		t.Error("an open quote was taken")
	}
	conn = connect(t, Target{Host: "h"}, &Config{SSH: "sh -c 'kill -9 $$'"})
	s = opened(t, conn)
	if _, err := io.ReadAll(s); err == nil {
		t.Error("an ssh that was killed ended well")
	}
	if status, ok := s.ExitStatus(); ok {
		t.Errorf("an ssh that was killed has the exit status %d", status)
	}
	conn = connect(t, Target{Host: "h"}, &Config{SSH: "/nonexistent/ssh"})
	if _, err := conn.Open(testContext(t)); err == nil || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a command that is not there: %v", err)
	}
}

func TestSplitCommand(t *testing.T) {
	for in, want := range map[string]string{
		"ssh": "ssh", " ssh  -v ": "ssh|-v", `'/a b/ssh' -o "X=a b"`: "/a b/ssh|-o|X=a b",
		`a'b'c ""`: "abc|",
	} {
		got, err := splitCommand(in)
		if err != nil || strings.Join(got, "|") != want {
			t.Errorf("splitCommand(%q) = %q, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "  ", "'a"} {
		if got, err := splitCommand(in); err == nil {
			t.Errorf("splitCommand(%q) = %q", in, got)
		}
	}
}

// TestSystemInBatchMode: ssh takes "true" for "yes", and the first of an option's values.
func TestSystemInBatchMode(t *testing.T) {
	for option, needsPerson := range map[string]bool{"BatchMode=yes": false,
		"batchmode true": false, "BatchMode=no": true, "BatchMode=false": true} {
		d, err := New(t.Context(), Target{Host: "h"}, &Config{SSH: "ssh",
			Options: []string{option, "BatchMode=no"}, Prompter: new(script)})
		if err != nil {
			t.Fatal(err)
		}
		if d.NeedsPerson() != needsPerson {
			t.Errorf("%s: NeedsPerson is %v", option, !needsPerson)
		}
	}
}
