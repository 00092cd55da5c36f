package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/usftp/usftp/internal/cutproxy"
	"github.com/usftp/usftp/internal/proxytest"
	"github.com/usftp/usftp/internal/servetest"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// The test binary is also the command, if started as "usftp", which is in PATH for the tests.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "sftp-server" {
		os.Exit(Main(os.Args[1:]))
	}
	testscript.Main(tests{m}, map[string]func(){
		"usftp":          func() { os.Exit(Main(os.Args[1:])) },
		"hostile-server": serveHostileHome,
		"answer":         func() { fmt.Println(answer) },
	})
}

// answer is what the program of that name answers as SSH_ASKPASS.
const answer = "open sesame"

// tests runs the tests; none of this concerns the commands that the test binary also is.
type tests struct{ *testing.M }

func (t tests) Run() int {
	// They wait far more than they compute: for logins, cut connections, and time that must pass.
	flag.Set("test.parallel", "8")
	// What is ignored here, as under nohup or in the background of a script, would be ignored by
	// all that the tests start.
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	return testenv.InMemory(t.M)
}

// An outcome is the result of running the command.
type outcome struct {
	code           int
	stdout, stderr string
}

// run runs the command in a directory, without a terminal.
func run(t *testing.T, dir string, args ...string) outcome {
	t.Helper()
	return finish(t, command(t, dir, args...))
}

// tooLong is when a command that does not end is killed.
const tooLong = 5 * time.Minute

// command returns the command, not yet started, in its own environment.
func command(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), tooLong)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "usftp", args...)
	// processes that other tests are starting hold its output open for a moment
	cmd.WaitDelay = time.Minute
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "SSH_AUTH_SOCK=", "SSH_ASKPASS=")
	noTerminal(cmd)
	return cmd
}

func finish(t *testing.T, cmd *exec.Cmd) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// resumed returns how many bytes a copy's done event says an earlier run has copied.
func resumed(events string) int64 {
	for line := range strings.Lines(events) {
		var e struct {
			Kind    string
			Resumed int64
		}
		if json.Unmarshal([]byte(line), &e) == nil && e.Kind == "done" {
			return e.Resumed
		}
	}
	return -1
}

// Both programs' tests share these.
var (
	randomData = servetest.RandomData
	writeFile  = servetest.WriteFile
	readFile   = servetest.ReadFile
)

// The scripts share two sshds, on which each script has its own directories.
func TestScripts(t *testing.T) {
	t.Parallel()
	other := opensshd.Start(t, opensshd.Options{Alias: "otherhost"})
	sshd := opensshd.Start(t, opensshd.Options{ClientConfig: []string{other.ClientBlock()}})
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("CONF", sshd.ConfigFile)
			env.Setenv("ADDRESS", sshd.User+"@"+sshd.Addr())
			env.Setenv("LOGIN", sshd.User)
			env.Setenv("KEY", sshd.IdentityFile)
			env.Setenv("KNOWN", sshd.KnownHosts)
			env.Setenv("SFTP_SERVER", opensshd.Find(t, "sftp-server"))
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("R", "testhost:"+filepath.Join(env.WorkDir, "remote"))
			env.Setenv("O", "otherhost:"+filepath.Join(env.WorkDir, "other"))
			return os.MkdirAll(filepath.Join(env.WorkDir, "remote"), 0o755)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code":   codeCommand,
			"random": randomCommand,
			"proxying": func(ts *testscript.TestScript, _ bool, args []string) {
				proxyingCommand(t, ts, sshd, args)
			},
			"breaking": func(ts *testscript.TestScript, _ bool, args []string) {
				breakingCommand(t,
					ts, sshd, args)
			},
		},
	})
}

// code N command args... runs a command that must end with the exit code N.
func codeCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N command args...")
	}
	got := "0"
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.String()[len("exit status "):]
	} else {
		ts.Check(err)
	}
	if got != args[0] {
		ts.Fatalf("exit code %s, want %s", got, args[0])
	}
}

// breaking BYTES... starts a proxy whose connections break, each after its number of bytes; later
// ones do not break. PORT and ALIAS lead through it.
func breakingCommand(t *testing.T, ts *testscript.TestScript, sshd *opensshd.Server,
	args []string) {
	var breaks []int64
	for _, arg := range args {
		n, err := strconv.ParseInt(arg, 10, 64)
		ts.Check(err)
		breaks = append(breaks, n)
	}
	proxy := cutproxy.Start(t, sshd.Addr(), breaks...)
	ts.Setenv("PORT", strconv.Itoa(proxy.Port))
	ts.Setenv("ALIAS", fmt.Sprintf("HostKeyAlias=[%s]:%d", sshd.Host, sshd.Port))
}

// proxying SCHEME LOGIN starts a proxy that knows an address for only-there.invalid: the sshd's,
// with ALIAS. PROXY is its URL.
func proxyingCommand(t *testing.T, ts *testscript.TestScript, sshd *opensshd.Server,
	args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: proxying SCHEME LOGIN")
	}
	proxy := proxytest.Start(t, args[0], args[1])
	proxy.Know("only-there.invalid", sshd.Host)
	ts.Setenv("PROXY", args[0]+"://"+args[1]+"@"+proxy.Address)
	ts.Setenv("ALIAS", fmt.Sprintf("HostKeyAlias=[%s]:%d", sshd.Host, sshd.Port))
}

// random FILE makes a file of 3 MB.
func randomCommand(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		ts.Check(os.WriteFile(ts.MkAbs(name), randomData(3_000_000), 0o644))
	}
}
