package dial

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

// resolveTimeout bounds `ssh -G`: a "Match exec" or a name server may hang.
const resolveTimeout = 30 * time.Second

// maxConfig bounds the bytes read of `ssh -G`'s output and of a configuration file.
const maxConfig = 4 << 20

// resolve finds the keywords' values for t: with `ssh -G` if OpenSSH is installed, since nothing
// else reads ssh_config exactly, otherwise with a library. exact reports which. Lists of algorithms
// are present only if they were configured.
func resolve(ctx context.Context, t Target, c *Config) (w keywords, exact bool, err error) {
	path := c.find("ssh")
	if path == "" {
		w, err = libraryKeywords(t, c)
		return w, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	// Only a comparison with this ssh's defaults shows whether algorithms were configured, so ask
	// for both at once, which takes about 5 ms.
	probe := []string{"-F", "none"}
	for _, key := range expanded {
		probe = append(probe, "-o", key+"=%%")
	}
	var defaults keywords
	var defaultsErr error
	var asking sync.WaitGroup
	asking.Go(func() { defaults, defaultsErr = sshG(ctx, path, c, append(probe, "--", "localhost")) })
	w, err = askSSH(ctx, path, t, c)
	other := err != nil && !isOpenSSH(ctx, path, c)
	if err != nil {
		cancel()
	}
	asking.Wait()
	if other {
		w, err = libraryKeywords(t, c)
		return w, false, err
	}
	if err = cmp.Or(err, defaultsErr); err != nil {
		return nil, true, err
	}
	dropDefaults(w, defaults)
	for _, key := range expanded {
		if defaults.get(key) == "%" {
			w[key] = literal(w[key])
		}
	}
	return w, true, nil
}

// askSSH asks `ssh -G` for what it would do for a session like ours, since Match may ask for its
// kind and command (OpenSSH 10). ssh takes no command beside a RemoteCommand, which then is not ours.
func askSSH(ctx context.Context, path string, t Target, c *Config) (keywords, error) {
	args, host := c.sshArgs(t), []string{"--", t.Host}
	if c.hop {
		return sshG(ctx, path, c, slices.Concat(args, []string{"-N"}, host))
	}
	run := c.sftp()
	session := append(slices.Clone(host), run.name)
	if run.request == "subsystem" {
		session = append([]string{"-s"}, session...)
	}
	w, err := sshG(ctx, path, c, slices.Concat(args, session))
	if err != nil && ctx.Err() == nil {
		w, err = sshG(ctx, path, c, slices.Concat(args, host))
	}
	return w, err
}

// expanded are the keywords in which `ssh -G` replaces the tokens: most versions in all of them,
// older ones in some. What it has replaced must not be taken for tokens again, such as "%eth0" in
// an address.
var expanded = []string{"controlpath", "identityagent", "userknownhostsfile"}

// literal returns values without tokens in a form that an expander leaves as they are.
func literal(values []string) (quoted []string) {
	for _, v := range values {
		quoted = append(quoted, strings.ReplaceAll(v, "%", "%%"))
	}
	return quoted
}

// find looks for a program along the PATH of the Config's environment.
func (c *Config) find(name string) string {
	if c.Env == nil || runtime.GOOS == "windows" {
		path, err := exec.LookPath(name)
		if err != nil {
			return ""
		}
		return path
	}
	for _, dir := range filepath.SplitList(c.getenv("PATH")) {
		path := filepath.Join(dir, name)
		if fi, err := os.Stat(path); err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0 &&
			filepath.IsAbs(path) {
			return path
		}
	}
	return ""
}

// isOpenSSH reports whether ssh is OpenSSH's (dropbear's has no -G). It is called only after a
// failure.
func isOpenSSH(ctx context.Context, path string, c *Config) bool {
	_, version, _ := printed(ctx, c.environ(), path, "-V")
	return ctx.Err() != nil || bytes.Contains(version.Bytes(), []byte("OpenSSH"))
}

// printed runs a program, and returns what it prints.
func printed(ctx context.Context, environ []string, program string,
	args ...string) (out, messages limitedBuffer, err error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env, cmd.WaitDelay = environ, time.Second
	out.limit, messages.limit = maxConfig, 64<<10
	cmd.Stdout, cmd.Stderr = &out, &messages
	err = cmd.Run()
	return out, messages, err
}

// sshG runs `ssh -G`.
func sshG(ctx context.Context, path string, c *Config, args []string) (keywords, error) {
	// -T suppresses the warning that there is no terminal.
	cmd := exec.CommandContext(ctx, path, append([]string{"-G", "-T"}, args...)...)
	cmd.Env = c.environ()
	cmd.WaitDelay = time.Second
	var stdout, stderr limitedBuffer
	stdout.limit, stderr.limit = maxConfig, 64<<10
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		stop := context.AfterFunc(ctx, func() { out.Close() })
		_, cut := io.Copy(&stdout, out) // all of it: half a configuration is useless
		stop()
		if err = cmd.Wait(); err == nil || errors.Is(err, exec.ErrWaitDelay) {
			err = cut // a child of "Match exec" may hold stderr for as long as it likes
		}
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("reading the ssh configuration: %w", context.Cause(ctx))
		}
		if text := complaint(stderr.Bytes()); text != "" {
			return nil, fmt.Errorf("the ssh configuration: %s", text)
		}
		return nil, fmt.Errorf("reading the ssh configuration with %s -G: %w", path, err)
	}
	if stdout.full {
		return nil, fmt.Errorf("%s -G printed more than %d bytes", path, maxConfig)
	}
	for line := range bytes.Lines(stderr.Bytes()) {
		c.logger().Info("ssh: " + printable(line))
	}
	return parseG(stdout.Bytes())
}

// parseG reads the output of `ssh -G`: a keyword and its value on each line.
func parseG(out []byte) (keywords, error) {
	w := make(keywords)
	for line := range strings.Lines(string(out)) {
		key, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), " ")
		if key == "" {
			continue
		}
		key = strings.ToLower(key)
		if key == "pubkeyacceptedkeytypes" { // before OpenSSH 8.5
			key = "pubkeyacceptedalgorithms"
		}
		if key == "proxyjump" && inQuotes(value) { // which the shell removes that runs ssh's jump
			value = value[1 : len(value)-1]
		}
		w[key] = append(w[key], value)
	}
	if w.get("hostname") == "" {
		return nil, errors.New("the output of ssh -G names no host")
	}
	return w, nil
}

// A limitedBuffer keeps the first bytes written to it and drops the rest. The buffer is not
// embedded, as io.Copy would fill it by its ReadFrom, which knows no limit.
type limitedBuffer struct {
	buf   bytes.Buffer
	limit int
	full  bool
}

func (b *limitedBuffer) Bytes() []byte { return b.buf.Bytes() }

func (b *limitedBuffer) Write(p []byte) (int, error) {
	n := len(p)
	if room := b.limit - b.buf.Len(); len(p) > room {
		p, b.full = p[:max(room, 0)], true
	}
	b.buf.Write(p)
	return n, nil
}

// mistakes limits how many lines of ssh's are shown.
const mistakes = 4

// complaint returns what ssh says of a configuration that it does not take. Its last line may only
// count the lines before it.
func complaint(text []byte) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	last := len(lines) - 1
	if last > 0 && strings.Contains(lines[last], ": terminating, ") {
		lines = lines[:last]
	}
	lines = lines[max(0, len(lines)-mistakes):]
	for i := range lines {
		lines[i] = strings.TrimSuffix(printable([]byte(lines[i])), ".")
	}
	return strings.Join(lines, "; ")
}

// printable makes text from a peer or a program fit for one line of a message.
func printable(b []byte) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case !unicode.IsPrint(r) || r == utf8.RuneError:
			return '?'
		}
		return r
	}, strings.TrimSpace(string(b)))
}
