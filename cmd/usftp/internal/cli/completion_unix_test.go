//go:build unix

package cli

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// patient makes completion wait for logins on a busy machine.
const patient = "USFTP_COMPLETION_TIMEOUT=1m"

// completed returns the completions of a command line, from `usftp __complete`. A person sees
// nothing else: standard error has only cobra's last line.
func completed(t *testing.T, home string, args ...string) []string {
	t.Helper()
	cmd := command(t, t.TempDir(), append([]string{"__complete"}, args...)...)
	cmd.Env = append(cmd.Env, patient)
	if home != "" {
		cmd.Env = append(cmd.Env, "HOME="+home)
	}
	got := finish(t, cmd)
	if got.code != 0 || strings.Count(got.stderr, "\n") > 1 {
		t.Errorf("%q: code %d, standard error %q", args, got.code, got.stderr)
	}
	lines := strings.Split(strings.TrimSpace(got.stdout), "\n")
	return lines[:len(lines)-1] // the last line is for the shell's script
}

func wantCompleted(t *testing.T, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("completed to %q, want %q", got, want)
	}
}

// TestCompletesHosts: the hosts of ssh_config and its included files, and those of known_hosts.
func TestCompletesHosts(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	ssh := filepath.Join(home, ".ssh")
	for _, dir := range []string{ssh, ssh + "/conf.d", home + "/elsewhere"} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, ssh+"/config",
		[]byte("Include conf.d/* ~/elsewhere/extra config\nHost zalpha \"zbeta\" z* !zno zg?mma\n\tHostName x\nhost=zdelta # zcomment\nUserKnownHostsFile ~/elsewhere/known\n"))
	writeFile(t, ssh+"/conf.d/one", []byte("Host zone\n"))
	writeFile(t, home+"/elsewhere/extra", []byte("Host zextra\nMatch host zmatch\n"))
	writeFile(t, home+"/elsewhere/known",
		[]byte("zknown,192.0.2.7 ssh-ed25519 AAAA\n|1|zhash|zhash ssh-ed25519 AAAA\n"))
	writeFile(t, ssh+"/known_hosts",
		[]byte("zother ssh-ed25519 AAAA\n[zport]:2222,[192.0.2.9]:2222 ssh-ed25519 AAAA\n2001:db8::7,[2001:db8::8]:2222 ssh-ed25519 AAAA\n@cert-authority *.zca ssh-ed25519 AAAA\n@revoked zrevoked ssh-ed25519 AAAA\nzshort\n#zcomment a b\nz$(evil) ssh-ed25519 AAAA\n"))
	wantCompleted(t, completed(t, home, "ls", "z"), "zalpha:", "zbeta:", "zdelta:", "zextra:",
		"zknown:", "zone:", "zother:", "zrevoked:")
	wantCompleted(t, completed(t, home, "cp", "me@ze"), "me@zextra:")
	// hosts that are known with a port
	wantCompleted(t, completed(t, home, "ls", "zp"))
	wantCompleted(t, completed(t, home, "ls", "--port", "22", "zp"))
	wantCompleted(t, completed(t, home, "ls", "--port", "2222", "zp"), "zport:")
	wantCompleted(t, completed(t, home, "cp", "-P", "2222", "me@zp"), "me@zport:")
	wantCompleted(t, completed(t, home, "ls", "sftp://zp"), "sftp://zport:2222/")
	wantCompleted(t, completed(t, home, "rm", "sftp://me@zp"), "sftp://me@zport:2222/")
	wantCompleted(t, completed(t, home, "ls", "sftp://zo"), "sftp://zone/", "sftp://zother/")
	wantCompleted(t, completed(t, home, "ls", "--hosts", "zone,zp"), "zone,zport:2222")
	wantCompleted(t, completed(t, home, "cp", "-J", "zp"), "zport:2222")
	wantCompleted(t, completed(t, home, "ls", "[2001:db8::7"), "[2001:db8::7]:")
	wantCompleted(t, completed(t, home, "ls", "--hosts", "[2001"), "[2001:db8::7]",
		"[2001:db8::8]:2222")
	wantCompleted(t, completed(t, home, "cp", "-J", "zone,zal"), "zone,zalpha")
	writeFile(t, home+"/own", []byte("Host zmine\n"))
	wantCompleted(t, completed(t, home, "rm", "--config", home+"/own", "zm"), "zmine:")
}

// TestCompletesFlags: the values of flags.
func TestCompletesFlags(t *testing.T) {
	t.Parallel()
	wantCompleted(t, completed(t, "", "ls", "--color="), "always", "auto", "never")
	wantCompleted(t, completed(t, "", "cp", "--links", "f"), "follow")
	wantCompleted(t, completed(t, "", "check", "--hash", ""), "sha256", "blake3")
	wantCompleted(t, completed(t, "", "cp", "-c", "chacha"), "chacha20-poly1305@openssh.com")
	wantCompleted(t, completed(t, "", "ls", "--option", "StrictH"), "StrictHostKeyChecking=")
	wantCompleted(t, completed(t, "", "find", "h:x", "-type", ""), "f", "d", "l", "p", "s", "b",
		"c")
	wantCompleted(t, completed(t, "", "find", "h:x", "-na"), "-name")
	wantCompleted(t, completed(t, "", "chmod", ""))
	wantCompleted(t, completed(t, "", "chm"), "chmod\tchange permissions")
	wantCompleted(t, completed(t, "", "help", "chm"), "chmod\tchange permissions")
}

// completionTree is what the tests complete.
func completionTree(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	for _, name := range []string{"alpha.txt", "alps/x", "sp ace.txt", "st*r", ".hidden", "quo'te",
		"bad\nname", "al\u202etxt.exe"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(root, name), nil)
	}
	if err := os.Symlink("alps", root+"/alink"); err != nil {
		t.Fatal(err)
	}
	return root
}

// TestCompletesPaths: paths on a host, for the commands on files and for cp.
func TestCompletesPaths(t *testing.T) {
	t.Parallel()
	sshd := opensshd.Start(t, opensshd.Options{})
	root := completionTree(t)
	at := "testhost:" + root + "/"
	conf := []string{"--config", sshd.ConfigFile}
	for _, verb := range []string{"ls", "cat", "rm", "du", "cp", "stat"} {
		wantCompleted(t, completed(t, "", append([]string{verb}, append(conf, at+"al")...)...),
			at+"alink/", at+"alpha.txt", at+"alps/")
	}
	wantCompleted(t, completed(t, "", "ls", conf[0], conf[1], at), at+"alink/", at+"alpha.txt",
		at+"alps/", at+"quo'te", at+"sp ace.txt", at+`st\*r`)
	wantCompleted(t, completed(t, "", "ls", conf[0], conf[1], at+"."), at+".hidden")
	wantCompleted(t, completed(t, "", "ls", conf[0], conf[1], at+`st\*`), at+`st\*r`)
	wantCompleted(t, completed(t, "", "ls", conf[0], conf[1], at+"alps/"), at+"alps/x")
	wantCompleted(t, completed(t, "", "rmdir", conf[0], conf[1], at+"al"), at+"alink/", at+"alps/")
	wantCompleted(t, completed(t, "", "chmod", conf[0], conf[1], "755", at+"alph"), at+"alpha.txt")
	wantCompleted(t, completed(t, "", "find", conf[0], conf[1], at+"al"), at+"alink/", at+"alps/")
	wantCompleted(t, completed(t, "", "ls", conf[0], conf[1], at+"none/"))
	// paths on each host of a list are those of the first
	for _, args := range [][]string{
		{"ls", "--hosts", "testhost,none"},
		{"cp", "--hosts=" + fmt.Sprintf("testhost:%d", sshd.Port), "file"},
	} {
		wantCompleted(t, completed(t, "", append(append(args, conf...), ":"+root+"/alp")...),
			":"+root+"/alpha.txt", ":"+root+"/alps/")
	}
	// addresses with a port
	url := fmt.Sprintf("sftp://%s@%s:%d", sshd.User, sshd.Host, sshd.Port)
	key := []string{"--identity", sshd.IdentityFile, "--option", "UserKnownHostsFile=" +
		sshd.KnownHosts}
	for _, typed := range []string{root + "/al", root + "/sp%20", root + `/st%5C%2A`} {
		dir, want := root+"/", []string{"alink/", "alpha.txt", "alps/"}
		switch {
		case strings.HasSuffix(typed, "%20"):
			want = []string{"sp%20ace.txt"}
		case strings.HasSuffix(typed, "%2A"):
			want = []string{"st%5C%2Ar"}
		}
		for i := range want {
			want[i] = url + dir + want[i]
		}
		wantCompleted(t, completed(t, "", append(append([]string{"ls"}, key...), url+typed)...),
			want...)
	}
	// homes, and relative paths: the host's home is the password file's, wherever $HOME is
	account, err := user.Lookup(sshd.User)
	if err != nil {
		t.Fatal(err)
	}
	below, err := filepath.Rel(account.HomeDir, root)
	if err != nil {
		t.Fatal(err)
	}
	for _, typed := range []string{"testhost:" + below + "/", "testhost:~/" + below + "/",
		"testhost:~" + sshd.User + "/" + below + "/",
		"sftp://testhost/~/" + below + "/"} {
		wantCompleted(t, completed(t, "", "ls", conf[0], conf[1], typed+"alph"), typed+"alpha.txt")
	}
}

// TestCompletionIsUnattended: completion accepts no host key, whatever the command line says, asks
// no questions, and does not wait for a silent server.
func TestCompletionIsUnattended(t *testing.T) {
	t.Parallel()
	unknown := opensshd.Start(t, opensshd.Options{NoKnownHosts: true})
	for _, how := range [][]string{nil, {"-o", "StrictHostKeyChecking=no"}, {"--ssh"},
		{"--ssh", "-o", "StrictHostKeyChecking=no"}} {
		wantCompleted(t, completed(t, "",
			append(append([]string{"cp", "-F", unknown.ConfigFile}, how...), "testhost:/")...))
	}
	if known := readFile(t, unknown.KnownHosts); len(known) != 0 {
		t.Errorf("known_hosts is %q", known)
	}
	if strings.Contains(unknown.Log(), "Accepted") {
		t.Errorf("it has logged in:\n%s", unknown.Log())
	}

	locked := opensshd.Start(t,
		opensshd.Options{Config: []string{"PasswordAuthentication yes",
			"KbdInteractiveAuthentication yes"}})
	if err := os.Remove(locked.AuthorizedKeys); err != nil {
		t.Fatal(err)
	}
	wantCompleted(t, completed(t, "", "cp", "-F", locked.ConfigFile, "testhost:/"))

	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	began := time.Now()
	_, port, _ := net.SplitHostPort(silent.Addr().String())
	if got := run(t, t.TempDir(), "__complete", "cp", "-F", "none", "-P", port,
		"127.0.0.1:/"); got.code != 0 || got.stdout != ":4\n" {
		t.Errorf("%+v", got)
	}
	if took := time.Since(began); took > 20*time.Second { // logins take 60 s or more to time out
		t.Errorf("it took %v", took)
	}
}

// TestCompletionThroughMaster: with a live ControlMaster there is no login.
func TestCompletionThroughMaster(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "master") // a short name for the socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	sshd := opensshd.Start(t,
		opensshd.Options{ClientConfig: []string{"Host testhost", "\tControlPath " + dir + "/s"}})
	root := completionTree(t)
	ssh := opensshd.Find(t, "ssh")
	// -f goes to the background once the master listens.
	if out, err := exec.Command(ssh, "-F", sshd.ConfigFile, "-M", "-N", "-f", "-o",
		"ControlPersist=yes", "testhost").CombinedOutput(); err != nil {
		t.Fatalf("ssh -M: %v: %s", err, out)
	}
	t.Cleanup(func() { exec.Command(ssh, "-F", sshd.ConfigFile, "-O", "exit", "testhost").Run() })
	if out, err := exec.Command(ssh, "-F", sshd.ConfigFile, "testhost",
		"true").CombinedOutput(); err != nil {
		t.Fatalf("ssh: %v: %s", err, out) // a channel: the master's login is in the log now
	}
	logins := strings.Count(sshd.Log(), "Accepted")
	wantCompleted(t, completed(t, "", "ls", "--config", sshd.ConfigFile, "testhost:"+root+"/alph"),
		"testhost:"+root+"/alpha.txt")
	if now := strings.Count(sshd.Log(), "Accepted"); now != logins {
		t.Errorf("%d logins, want the master's %d", now, logins)
	}
}

// TestCompletionForPowerShell: its script asks usftp. There is no PowerShell here to run it;
// .ci/windows parses it.
func TestCompletionForPowerShell(t *testing.T) {
	t.Parallel()
	o := run(t, t.TempDir(), "completion", "powershell")
	for _, part := range []string{"Register-ArgumentCompleter -CommandName 'usftp'",
		" __complete "} {
		if o.code != 0 || !strings.Contains(o.stdout, part) {
			t.Errorf("code %d, without %q: %s%s", o.code, part, o.stdout, o.stderr)
		}
	}
}

// TestCompletionInShells asks bash, zsh and fish, with the scripts that `usftp completion` prints.
func TestCompletionInShells(t *testing.T) {
	t.Parallel()
	sshd := opensshd.Start(t, opensshd.Options{})
	root := completionTree(t)
	for _, name := range []string{"$(touch bad)a", "$(touch bad)b", "two  spaces"} {
		writeFile(t, filepath.Join(root, name), nil)
	}
	at := "testhost:" + root + "/"
	const bashCompletion = "/usr/share/bash-completion/bash_completion"
	for _, shell := range []struct {
		name, program string
		quoted        string // how the shell writes a name with a space
		colon         bool   // what is before the last colon is left out
	}{
		{"bash", `
. ` + bashCompletion + `
. "$SCRIPT"
ask() {
	COMP_LINE="usftp ls --config $CONF $1"
	COMP_POINT=${#COMP_LINE}
	IFS=' ' read -r -a COMP_WORDS <<<"usftp ls --config $CONF"
	case $1 in
	[\"\']*) COMP_WORDS+=("$1") ;;
	*) COMP_WORDS+=("${1%%:*}" ":" "${1#*:}") ;; # as readline splits it, at colons too
	esac
	COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
	COMP_TYPE=9 COMPREPLY=()
	__start_usftp
	printf '%s\n' "${COMPREPLY[@]}"
}
ask "$WORD"
`, `sp\ ace.txt`, true},
		{"zsh", `
compdef() { }
_describe() { # -o? tag array flags...
	local list=$2
	print -rl -- "${(@P)list}"
}
. "$SCRIPT"
words=(usftp ls --config $CONF $WORD)
CURRENT=$#words
_usftp
`, `sp ace.txt`, false},
		{"fish", `
source $SCRIPT
complete -C "usftp ls --config $CONF $WORD"
`, `sp ace.txt`, false},
	} {
		t.Run(shell.name, func(t *testing.T) {
			t.Parallel()
			program := testenv.Program(t, shell.name)
			if strings.Contains(shell.program, bashCompletion) {
				if _, err := os.Stat(bashCompletion); err != nil {
					testenv.Unavailable(t, "the package bash-completion")
				}
			}
			dir := t.TempDir()
			script := run(t, dir, "completion", shell.name)
			file := filepath.Join(dir, "completion")
			writeFile(t, file, []byte(script.stdout))
			ask := func(word string) []string {
				cmd := exec.Command(program, "-c", shell.program)
				cmd.Dir = dir
				cmd.Env = append(os.Environ(), "HOME="+dir, "SSH_AUTH_SOCK=", patient, "SCRIPT="+
					file, "CONF="+sshd.ConfigFile, "WORD="+word)
				out, err := cmd.Output()
				if err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				var lines []string
				for line := range strings.Lines(string(out)) {
					lines = append(lines, strings.ReplaceAll(strings.TrimRight(line, " \n"), `\:`,
						":"))
				}
				return lines
			}
			head := at
			if shell.colon {
				head = root + "/"
			}
			wantCompleted(t, ask(at+"al"), head+"alink/", head+"alpha.txt", head+"alps/")
			wantCompleted(t, ask(at+"sp"), head+shell.quoted)
			wantCompleted(t, ask(at+"zzz"), []string{}...)
			for _, quote := range []string{`"`, `'`} {
				wantCompleted(t, ask(quote+at+"sp a"), at+"sp ace.txt")
				wantCompleted(t, ask(quote+at+"two  s"), at+"two  spaces")
			}
			if shell.name == "bash" { // the others quote what they insert
				wantCompleted(t, ask(at+`\$`), head+`\$\(touch\ bad\)a`, head+`\$\(touch\ bad\)b`)
				wantCompleted(t, ask(`"`+at+`\$`), at+`\$(touch bad)a`, at+`\$(touch bad)b`)
			}
		})
	}
}

// TestBackslashInZsh: zsh inserts a name with the backslash that keeps * from being a pattern on the
// host. Without it, rm removed other files, too.
func TestBackslashInZsh(t *testing.T) {
	t.Parallel()
	program := testenv.Program(t, "zsh")
	sshd := opensshd.Start(t, opensshd.Options{})
	at, dir := "testhost:"+completionTree(t)+"/st", t.TempDir()
	writeFile(t, filepath.Join(dir, "completion"), []byte(run(t, dir, "completion", "zsh").stdout))
	cmd := exec.Command(program, "-f", "-i")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "SSH_AUTH_SOCK=", patient, "TERM=xterm")
	s := onScreen(t, 1000, cmd)
	s.typed(`autoload -U compinit; compinit -u -D; . ./completion; ` +
		`usftp() { [[ $1 = __complete ]] && command usftp "$@" || print -r "it is ${@[-1]}" }` + "\r")
	s.typed("usftp rm --config " + sshd.ConfigFile + " " + at + "\t\r")
	s.await(`it is ` + regexp.QuoteMeta(at) + `.*\r\n`)
	s.typed("exit\r")
	s.End()
	if !strings.Contains(s.shown.String(), "it is "+at+`\*r`) {
		t.Errorf("another word was inserted: %q", &s.shown)
	}
}

// TestQuotedWordsInFish: cobra's script for fish ran names of files as commands, and knew no word
// with a quoted character.
func TestQuotedWordsInFish(t *testing.T) {
	t.Parallel()
	program := testenv.Program(t, "fish")
	sshd := opensshd.Start(t, opensshd.Options{})
	root, dir := completionTree(t), t.TempDir()
	writeFile(t, filepath.Join(dir, "completion"), []byte(run(t, dir, "completion", "fish").stdout))
	config, err := os.ReadFile(sshd.ConfigFile)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "conf"), config)
	const name = "it's a; touch bad"
	if err := os.Mkdir(filepath.Join(root, name), 0o755); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(root, name, "in it"), nil)
	at := "testhost:" + root + "/"
	for _, words := range []string{at + `it\'s\ a\;\ touch\ bad/`, `"` + at + "it's a; touch bad/i",
		`a\;touch\ bad '(touch bad)' ` + at + `it\'s\ a\;\ touch\ bad/i`} {
		for _, conf := range []string{"~/conf", "$HOME/conf", `"$HOME/conf"`} {
			cmd := exec.Command(program, "-c", "source completion; complete -C $LINE")
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "HOME="+dir, "SSH_AUTH_SOCK=", patient,
				"LINE=usftp cp --config "+conf+" "+words)
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), at+name+"/in it") {
				t.Errorf("%s %s: %v, %q", conf, words, err, out)
			}
		}
		if _, err := os.Stat(filepath.Join(dir, "bad")); err == nil {
			t.Errorf("%s was run", words)
		}
	}
}
