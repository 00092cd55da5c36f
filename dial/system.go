package dial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
)

// A systemSSH runs the system's ssh, or the program named in its place, once for each stream; or a
// local server, whose command it runs unchanged.
type systemSSH struct {
	t       Target
	config  *Config
	command []string
	batch   bool
	local   bool // command is the server
}

func newSystemSSH(t Target, c *Config) (*systemSSH, error) {
	if c.Server != "" {
		command, err := splitCommand(c.Server)
		if err != nil {
			return nil, fmt.Errorf("the server's command %q: %w", c.Server, err)
		}
		return &systemSSH{t: t, config: c, command: command, batch: true, local: true}, nil
	}
	command, err := splitCommand(c.SSH)
	if err != nil {
		return nil, fmt.Errorf("the command %q in place of ssh: %w", c.SSH, err)
	}
	if command[0] == "ssh" {
		if path := c.find("ssh"); path != "" {
			command[0] = path
		}
	}
	s := &systemSSH{t: t, config: c, command: command}
	for _, o := range c.Options {
		if key, value, err := splitOption(o); err == nil && strings.EqualFold(key, "BatchMode") {
			s.batch = keywords{"batchmode": {value}}.yes("batchmode", false)
			break
		}
	}
	if c.Prompter == nil && !s.batch {
		// ssh would otherwise ask on the terminal.
		s.batch = true
		s.command = append(s.command, "-o", "BatchMode=yes")
	}
	return s, nil
}

// args returns the arguments that scp gives to ssh, and the program: nothing is forwarded, and no
// command from the configuration runs.
func (s *systemSSH) args(p program) []string {
	if s.local {
		return s.command[1:]
	}
	args := append(s.command[1:len(s.command):len(s.command)],
		"-x", "-a", "-oClearAllForwardings=yes", "-oPermitLocalCommand=no", "-oRemoteCommand=none",
		"-oRequestTTY=no")
	args = append(args, s.config.sshArgs(s.t)...)
	if p.request == "subsystem" {
		args = append(args, "-s")
	}
	return append(args, "--", s.t.Host, p.name)
}

// newSystemConn returns a Conn whose streams are processes.
func newSystemConn(d *Dialer) *Conn {
	c := &Conn{d: d, streams: make(map[*Stream]struct{})}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	return c
}

// open starts one ssh. Only the server's first bytes show that the login worked: until then the
// stream is open, and a failure ends it with a [SubsystemError].
func (s *systemSSH) open(c *Conn, run program) (*Stream, error) {
	if s.local && run != s.config.sftp() {
		return nil, &SubsystemError{Reason: "a server without SSH runs no command", ExitStatus: -1}
	}
	cmd := s.config.program(s.command[0], s.args(run)...)
	level := slog.LevelInfo
	if !s.batch { // a banner may ask a person to do something, or ssh to touch a token
		level = slog.LevelWarn
	}
	log := s.config.logger()
	p, err := startProcess(cmd,
		func(line string) { log.Log(context.Background(), level, s.name()+": "+line) })
	if err != nil {
		return nil, startError(s.command[0], err)
	}
	stream := &Stream{conn: c, write: p.in, stderr: p.stderr}
	stream.read = &sshOutput{s: stream, p: p}
	stream.end = func() error {
		p.stop()
		c.mu.Lock()
		delete(c.streams, stream)
		c.mu.Unlock()
		if code := p.exitCode(); code >= 0 {
			stream.setStatus(code)
		}
		return nil
	}
	c.mu.Lock()
	closed := c.closed
	if !closed {
		c.streams[stream] = struct{}{}
	}
	c.mu.Unlock()
	if closed {
		stream.Close()
		return nil, ErrClosed
	}
	return stream, nil
}

// An sshOutput is ssh's output. If ssh failed, its end carries the reason.
type sshOutput struct {
	s *Stream
	p *process
}

func (o *sshOutput) Read(b []byte) (int, error) {
	n, err := o.p.out.Read(b)
	if n > 0 || !errors.Is(err, io.EOF) {
		return n, err
	}
	if !closedWithin(closeLimit, o.p.exited) {
		return 0, io.EOF
	}
	closedWithin(closeLimit/2, o.p.drained)
	code := o.p.exitCode()
	if code >= 0 { // no signal ended it
		o.s.setStatus(code)
	}
	if code == 0 {
		return 0, io.EOF
	}
	return 0, &Error{Host: o.s.conn.Host(), Err: &SubsystemError{
		Reason: o.s.conn.d.system.name() + " ended", ExitStatus: code, Text: o.p.stderr.line(),
		noLogin: code == sshFailed && !o.s.conn.d.system.local,
	}}
}

// sshFailed is ssh's exit status for an error of its own (ssh(1)); any other status is the remote
// program's.
const sshFailed = 255

// name returns the program's name for messages.
func (s *systemSSH) name() string {
	if s.local {
		return filepath.Base(s.command[0])
	}
	return "ssh"
}

// splitCommand splits a command line at spaces; quotes keep words together.
func splitCommand(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	var quote rune
	in := false
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, in = r, true
		case r == ' ' || r == '\t':
			if in {
				words = append(words, word.String())
			}
			word.Reset()
			in = false
		default:
			word.WriteRune(r)
			in = true
		}
	}
	if quote != 0 {
		return nil, errors.New("unterminated quote")
	}
	if in {
		words = append(words, word.String())
	}
	if len(words) == 0 {
		return nil, errors.New("no command")
	}
	return words, nil
}
