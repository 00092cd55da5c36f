package hooks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// commander runs a command for each event. There is no shell, and no argument comes from a client:
// the event is in the environment, and in JSON on standard input.
type commander struct{ hook *Hook }

func (c *commander) send(ctx context.Context, e *Event) error {
	body, err := json.Marshal(e)
	if err != nil {
		return err
	}
	cmd := command(ctx, c.hook.Command, environment(e))
	cmd.Stdin = bytes.NewReader(append(body, '\n'))
	var said start
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := run(cmd); err != nil {
		return fmt.Errorf("%s: %w: %q", c.hook.Command[0], err, bytes.TrimSpace(said))
	}
	return nil
}

// command makes a command that is killed when ctx ends, with everything that it has started.
func command(ctx context.Context, words, environment []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Env, cmd.Dir = environment, os.TempDir()
	cmd.WaitDelay = time.Second // for processes that it leaves behind, which keep its output open
	killGroup(cmd)
	return cmd
}

// run runs a command. It has succeeded with exit status 0, also if something that it leaves behind
// keeps its output open. If it fails, what it leaves behind is killed, since it may be run again.
func run(cmd *exec.Cmd) error {
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		return nil
	}
	if err != nil && cmd.Process != nil && cmd.Cancel != nil {
		cmd.Cancel()
	}
	return err
}

// inherited returns the few variables of the server's own environment that a command gets. The rest
// may be secrets.
func inherited() (all []string) {
	for _, name := range []string{"PATH", "HOME", "LANG", "TZ", "TMPDIR", "SystemRoot"} {
		if value, ok := os.LookupEnv(name); ok {
			all = append(all, name+"="+value)
		}
	}
	return all
}

// environment returns the whole environment of a command.
func environment(e *Event) []string {
	all := inherited()
	for _, one := range []struct{ name, value string }{
		{"ID", e.ID}, {"KIND", string(e.Kind)}, {"TIME", e.Time.Format(time.RFC3339Nano)},
		{"USER", e.User}, {"REMOTE", e.Remote}, {"PROTOCOL", e.Protocol}, {"REQUEST", e.Request},
		{"PATH", e.Path}, {"TO", e.To}, {"FILE", e.File}, {"TO_FILE", e.ToFile},
		{"READ", strconv.FormatInt(e.Read, 10)}, {"WRITTEN", strconv.FormatInt(e.Written, 10)},
		{"SHA256", e.SHA256}, {"UNCONFIRMED", strconv.FormatBool(e.Unconfirmed)},
	} {
		all = append(all, "USFTP_"+one.name+"="+one.value)
	}
	return all
}

// start keeps the first mostShown bytes that are written to it.
type start []byte

func (s *start) Write(p []byte) (int, error) {
	*s = append(*s, p[:min(len(p), mostShown-len(*s))]...)
	return len(p), nil
}
