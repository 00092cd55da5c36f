//go:build unix

package cli

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// A line of --json, with the fields that the tests check.
type jsonLine struct {
	Kind       string
	Bytes      int64
	Code       int
	Source     string
	LeftBehind string `json:"left_behind"`
}

// until reads events until one is of a kind and reports at least that many bytes.
func until(t *testing.T, events *bufio.Scanner, kind string, bytes int64) jsonLine {
	t.Helper()
	for events.Scan() {
		var line jsonLine
		if err := json.Unmarshal(events.Bytes(), &line); err != nil {
			t.Fatalf("%v: %s", err, events.Bytes())
		}
		if line.Kind == kind && line.Bytes >= bytes {
			return line
		}
	}
	t.Fatalf("no event %q with %d bytes", kind, bytes)
	return jsonLine{}
}

// A signal in the middle of a copy stops it; what has arrived stays and is named, and the target is
// unchanged.
func TestSignal(t *testing.T) {
	t.Parallel()
	sshd := opensshd.Start(t, opensshd.Options{})
	data := randomData(64 << 20)
	for _, c := range []struct {
		name     string
		upload   bool
		signal   syscall.Signal
		code     int
		sentence string
	}{
		{"Ctrl-C, upload", true, syscall.SIGINT, 130,
			`usftp: cannot copy .*/big to testhost:.*/target: interrupted; (\d+) bytes of it are left in testhost:([^\s;]+); the same command with --resume continues from there`},
		{"Ctrl-C, download", false, syscall.SIGINT, 130,
			`usftp: cannot copy testhost:.*/big to .*/target: interrupted; (\d+) bytes of it are left in ([^\s;]+); the same command with --resume continues from there`},
		{"TERM", true, syscall.SIGTERM, 143,
			`usftp: cannot copy .*/big to testhost:.*/target: killed by a signal \(terminated\); (\d+) bytes of it are left in testhost:([^\s;]+); the same command with --resume continues from there`},
		{"HUP, and TERM with it", true, syscall.SIGHUP, 129,
			`usftp: cannot copy .*/big to testhost:.*/target: killed by a signal \((?:hangup|terminated)\); (\d+) bytes of it are left in testhost:([^\s;]+); the same command with --resume continues from there`},
		{"HUP", false, syscall.SIGHUP, 129,
			`usftp: cannot copy testhost:.*/big to .*/target: killed by a signal \(hangup\); (\d+) bytes of it are left in ([^\s;]+); the same command with --resume continues from there`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBigCopy(t, data, c.upload)
			state := "XDG_STATE_HOME=" + t.TempDir()
			cmd := command(t, b.dir, "cp", "-F", sshd.ConfigFile, "--json", "-l", "40000", b.from, b.to)
			cmd.Env = append(cmd.Env, state)
			events, stderr := started(t, cmd)
			until(t, events, "progress", 2<<20) // a download continues 1 MiB before its end
			cmd.Process.Signal(c.signal)
			both := strings.HasSuffix(c.name, "with it")
			if both {
				cmd.Process.Signal(syscall.SIGTERM)
			}
			failed := until(t, events, "failed", 0)
			exit := until(t, events, "exit", 0)
			cmd.Wait()
			want := c.code
			if both && strings.Contains(stderr.String(), "(terminated)") {
				want = 143 // two threads may take two signals, in any order
			}
			if code := cmd.ProcessState.ExitCode(); code != want || exit.Code != want {
				t.Errorf("exit code %d (%d in the last event), want %d", code, exit.Code, want)
			}
			if !regexp.MustCompile(`^` + c.sentence +
				`\nusftp: [0-9.]+ MB kept for --resume; to continue: usftp cp --resume -F .* --json -l 40000 .*big.* .*target\n$`).MatchString(stderr.String()) {
				t.Errorf("it says:\n%s", stderr)
			}
			if old := string(readFile(t, b.target)); old != "old" {
				t.Errorf("the target has changed: %.40q", old)
			}
			left(t, stderr.String(), c.sentence, data)
			m := regexp.MustCompile(c.sentence).FindStringSubmatch(stderr.String())
			if m == nil {
				return
			}
			if failed.LeftBehind != m[2] {
				t.Errorf("the event says that %q is left, the message %q", failed.LeftBehind, m[2])
			}

			// The same happens the second time, when the copy continues from there.
			had, _ := strconv.ParseInt(m[1], 10, 64)
			cmd = command(t, b.dir, "cp", "-F", sshd.ConfigFile, "--json", "-l", "40000", "--resume",
				b.from, b.to)
			cmd.Env = append(cmd.Env, state)
			events, stderr = started(t, cmd)
			until(t, events, "progress", had+1<<20)
			cmd.Process.Signal(c.signal)
			until(t, events, "exit", 0)
			cmd.Wait()
			if again := regexp.MustCompile(c.sentence).FindStringSubmatch(
				stderr.String()); again == nil || again[2] != m[2] {
				t.Errorf("the second time it says:\n%s", stderr)
			}
		})
	}
}

// TestSignalToAProgram: a signal to the group of usftp and of a program that it runs ends both, and
// nothing is done because of how the program ended.
func TestSignalToAProgram(t *testing.T) {
	t.Parallel()
	sshd := opensshd.Start(t, opensshd.Options{})
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		for name, args := range map[string][]string{
			"find": {"find", "--config", sshd.ConfigFile, "testhost:FILES", "-type", "f", "!",
				"-exec", "sh", "-c", "echo ready; exec sleep 60", ";", "-delete"},
			"shell": {"shell", "-F", sshd.ConfigFile, "-b", "batch", "testhost:FILES"},
			"pager": {"shell", "-F", sshd.ConfigFile, "-b", "pages", "testhost:FILES"},
		} {
			t.Run(name+" "+signal.String(), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				if err := os.Mkdir(dir+"/files", 0o755); err != nil {
					t.Fatal(err)
				}
				writeFile(t, dir+"/batch", []byte("!echo ready; exec sleep 60\nrm one\nrm two\n"))
				writeFile(t, dir+"/pages", []byte("-less one\nrm one\nrm two\n"))
				writeFile(t, dir+"/files/one", nil)
				writeFile(t, dir+"/files/two", nil)
				args = slices.Clone(args)
				for i := range args {
					args[i] = strings.ReplaceAll(args[i], "FILES", dir+"/files")
				}
				cmd := command(t, dir, args...)
				cmd.Env = append(cmd.Env, `PAGER=sh -c "echo ready; exec sleep 60"`)
				output, stderr := started(t, cmd)
				for output.Scan() && output.Text() != "ready" {
				}
				syscall.Kill(-cmd.Process.Pid, signal)
				for output.Scan() {
				}
				cmd.Wait()
				code, said := cmd.ProcessState.ExitCode(), stderr.String()
				if code != 128+int(signal) || // and it was not ended for taking too long
					signal != syscall.SIGINT && !strings.Contains(said, "killed by a signal") {
					t.Errorf("exit code %d: %s", code, said)
				}
				readFile(t, dir+"/files/one")
				readFile(t, dir+"/files/two")
			})
		}
	}
}

// TestSignalToAPipeline: the end of standard input, or of a named pipe, is not that of the data if a
// signal has ended all programs of a pipeline.
func TestSignalToAPipeline(t *testing.T) {
	t.Parallel()
	sshd := opensshd.Start(t, opensshd.Options{})
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		for try := range 5 {
			for name, copies := range map[string]string{
				"input": "cp --json -F CONFIG - testhost:TARGET",
				"pipe":  ">pipe cp --json -F CONFIG pipe testhost:TARGET",
				"hosts": ">pipe cp --json -F CONFIG --hosts testhost pipe :TARGET",
			} {
				t.Run(fmt.Sprint(name, signal, try), func(t *testing.T) {
					t.Parallel()
					dir := t.TempDir()
					target := dir + "/target"
					writeFile(t, target, []byte("old"))
					if err := syscall.Mkfifo(dir+"/pipe", 0o600); err != nil {
						t.Fatal(err)
					}
					to, args, _ := strings.Cut(copies, "cp ")
					args = strings.NewReplacer("CONFIG", sshd.ConfigFile, "TARGET", target).Replace(args)
					cmd := command(t, dir)
					cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", "(echo half; exec sleep 60) " + to +
						"| usftp cp " + args}
					events, stderr := started(t, cmd)
					until(t, events, "started", 0)
					syscall.Kill(-cmd.Process.Pid, signal)
					exit := until(t, events, "exit", 0)
					cmd.Wait()
					if got := string(readFile(t, target)); got != "old" || exit.Code != 128+int(signal) {
						t.Errorf("exit code %d, and the target is %q: %s", exit.Code, got, stderr)
					}
				})
			}
		}
	}
}

// TestSignalToABatch: half a line, which a signal to the program that writes it has left, is not run.
func TestSignalToABatch(t *testing.T) {
	t.Parallel()
	sshd := opensshd.Start(t, opensshd.Options{})
	for _, batch := range []string{"-", "pipe"} {
		dir := t.TempDir()
		if err := syscall.Mkfifo(dir+"/pipe", 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := command(t, dir)
		to := map[string]string{"pipe": ">pipe"}[batch]
		cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", `(printf '!echo ready\n!touch half'; ` +
			"exec sleep 60) " + to + "| usftp shell -F " + sshd.ConfigFile + " -b " + batch + " testhost"}
		output, stderr := started(t, cmd)
		for output.Scan() && output.Text() != "ready" {
		}
		syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		for output.Scan() {
		}
		cmd.Wait()
		if _, err := os.Stat(dir + "/half"); err == nil {
			t.Errorf("-b %s: half a line ran: %s", batch, stderr)
		}
	}
}

// started starts a command and returns its standard output, line by line, and its standard error.
func started(t *testing.T, cmd *exec.Cmd) (*bufio.Scanner, *bytes.Buffer) {
	t.Helper()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	return bufio.NewScanner(stdout), &stderr
}

// A read of standard input that waits forever, and a write to standard output that nobody reads, do
// not delay an interruption.
func TestSignalWhileAStreamWaits(t *testing.T) {
	t.Parallel()
	sshd := opensshd.Start(t, opensshd.Options{})
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "big"), randomData(8<<20))
	t.Run("standard input", func(t *testing.T) {
		cmd := command(t, dir, "cp", "-F", sshd.ConfigFile, "--json", "-",
			"testhost:"+filepath.Join(dir, "in"))
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		defer stdin.Close()
		events, stderr := started(t, cmd)
		io.WriteString(stdin, "something, and then nothing")
		until(t, events, "started", 0)
		cmd.Process.Signal(syscall.SIGINT)
		cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 130 {
			t.Errorf("exit code %d, want 130", code)
		}
		if !regexp.MustCompile(`^usftp: cannot copy - to testhost:.*/in: interrupted(; .* are left in .*)?\n$`).MatchString(stderr.String()) {
			t.Errorf("it says %q", stderr)
		}
	})
	t.Run("standard output", func(t *testing.T) {
		cmd := command(t, dir, "cp", "-F", sshd.ConfigFile, "testhost:"+filepath.Join(dir, "big"),
			"-")
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(stdout, make([]byte, 10)); err != nil { // and no more
			t.Fatal(err)
		}
		cmd.Process.Signal(syscall.SIGINT)
		cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 130 {
			t.Errorf("exit code %d, want 130: %s", code, &stderr)
		}
		if !strings.Contains(stderr.String(), ": interrupted") {
			t.Errorf("it says %q", &stderr)
		}
	})
}

// One Ctrl-C also ends the program while a connection is being made, or after the server has gone
// silent.
func TestSignalWhileTheServerIsSilent(t *testing.T) {
	t.Parallel()
	reached := make(chan struct{})
	port := listen(t, func(net.Conn) { close(reached) })
	cmd := command(t, t.TempDir(), "cp", "-F", "none", "-P", port, "127.0.0.1:x", ".")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-reached
	cmd.Process.Signal(syscall.SIGINT)
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit code %d, want 130: %s", code, &stderr)
	}
}

// If a server has granted SFTP and then sends nothing, one Ctrl-C is enough, and the program says
// so.
func TestSignalBeforeTheFirstWord(t *testing.T) {
	t.Parallel()
	silent := make(chan struct{})
	dir := t.TempDir()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	config := &ssh.ServerConfig{NoClientAuth: true}
	config.AddHostKey(key)
	port := listen(t, func(client net.Conn) {
		near, far := net.Pipe()
		t.Cleanup(func() { near.Close() })
		go carryUntil(silent, client, near)
		go carryUntil(silent, near, client)
		go func() {
			_, channels, requests, err := ssh.NewServerConn(far, config)
			if err != nil {
				t.Error(err)
				close(silent)
				return
			}
			go ssh.DiscardRequests(requests)
			channel, requests, err := (<-channels).Accept()
			if err != nil {
				t.Error(err)
			}
			go func() {
				for r := range requests {
					r.Reply(r.Type == "subsystem", nil)
				}
			}()
			channel.Read(make([]byte, 100)) // INIT
			close(silent)
		}()
	})
	cmd := command(t, dir, "cp", "-F", "none", "-o", "StrictHostKeyChecking=no", "-o",
		"UserKnownHostsFile="+filepath.Join(dir, "known"),
		"-P", port, "127.0.0.1:x", ".")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-silent
	began := time.Now()
	cmd.Process.Signal(syscall.SIGINT)
	cmd.Wait()
	if took := time.Since(began); took >= endpoint.CleanupTime ||
		!strings.Contains(stderr.String(), "interrupted") {
		t.Errorf("after %v: %s", took, &stderr)
	}
	if code := cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit code %d, want 130: %s", code, &stderr)
	}
}

// A second Ctrl-C ends the program at once, even if the server has gone silent and the first one is
// waiting to clean up.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	sshd := opensshd.Start(t, opensshd.Options{})
	silent := make(chan struct{})
	port := listen(t, func(client net.Conn) {
		server, err := net.Dial("tcp", sshd.Addr())
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { server.Close() })
		go carryUntil(silent, client, server)
		go carryUntil(silent, server, client)
	})
	dir := t.TempDir()
	big := filepath.Join(dir, "big")
	writeFile(t, big, randomData(32<<20))
	alias := fmt.Sprintf("HostKeyAlias=[%s]:%d", sshd.Host, sshd.Port)
	cmd := command(t, dir, "cp", "-F", sshd.ConfigFile, "-o", "Port="+port, "-o", alias, "--json",
		"-l", "20000", big, "testhost:"+filepath.Join(dir, "target"))
	events, _ := started(t, cmd)
	until(t, events, "progress", 1)
	close(silent)
	began := time.Now()
	// As a person does: until it helps. Signals at the same moment count as one.
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cmd.Wait()
	}()
	for waiting := true; waiting; {
		cmd.Process.Signal(syscall.SIGINT)
		select {
		case <-again.C:
		case <-ended:
			waiting = false
		}
	}
	if code := cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit code %d, want 130", code)
	}
	if took := time.Since(began); took >= endpoint.CleanupTime { // as long as one signal
		t.Errorf("it ends after %v only", took)
	}
}

// carryUntil forwards bytes one way until silent is closed; the connections stay open.
func carryUntil(silent chan struct{}, to, from net.Conn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		select {
		case <-silent:
			return
		default:
		}
		if _, err2 := to.Write(buf[:n]); err != nil || err2 != nil {
			return
		}
	}
}

// Signals that were ignored when the program started, as with nohup, do not end it; the others do.
func TestIgnoredSignals(t *testing.T) {
	t.Parallel()
	sshd := opensshd.Start(t, opensshd.Options{})
	data := randomData(16 << 20)
	for _, c := range []struct {
		name    string
		ignored string // for sh's trap
		sent    []syscall.Signal
		code    int
	}{
		{"nohup", "HUP", []syscall.Signal{syscall.SIGHUP, syscall.SIGHUP}, ui.ExitOK},
		{"job without job control", "INT", []syscall.Signal{syscall.SIGINT}, ui.ExitOK},
		{"nohup, TERM", "HUP", []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM}, 143},
		{"nohup, INT", "HUP", []syscall.Signal{syscall.SIGHUP, syscall.SIGINT}, 130},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			big, target := filepath.Join(dir, "big"), filepath.Join(dir, "target")
			writeFile(t, big, data)
			cmd := command(t, dir, "cp", "-F", sshd.ConfigFile, "--json", "-l", "20000", big,
				"testhost:"+target)
			program := cmd.Args
			cmd.Path = "/bin/sh"
			cmd.Args = append([]string{"sh", "-c", "trap '' " + c.ignored + `; exec "$@"`, "sh"},
				program...)
			events, stderr := started(t, cmd)
			until(t, events, "progress", 2<<20) // a download continues 1 MiB before its end
			for _, s := range c.sent {
				cmd.Process.Signal(s)
			}
			exit := until(t, events, "exit", 0)
			cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != c.code || exit.Code != c.code {
				t.Errorf("exit code %d (%d in the last event), want %d:\n%s", code, exit.Code,
					c.code,
					stderr)
			}
			if c.code == ui.ExitOK && !bytes.Equal(readFile(t, target), data) {
				t.Error("the copy differs from its source")
			}
		})
	}
}
