// Package scp serves the protocol that scp spoke before it changed to SFTP, and that scp -O still
// does.
//
// The client sends a command line that an scp on the server would be started with, and then talks
// to that. Here the line is parsed, never run, and the same backend as for SFTP answers.
package scp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"strings"
	"time"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/internal/lograte"
)

const (
	// maxLine is the longest line of the protocol: a path, and numbers.
	maxLine = 4096 + 128

	// maxDepth is how deep directories may lie in each other.
	maxDepth = 256

	// bufferSize is what is read and written at once. A larger one takes system calls so long that
	// the runtime lends the processor to others meanwhile and looks who needs it, which costs more
	// than the calls that it saves.
	bufferSize = 63 << 10
)

// session is one run of the protocol.
type session struct {
	ctx      context.Context
	view     *server.View
	command  *Command
	in       *bufio.Reader
	out      io.Writer
	log      *slog.Logger
	rate     lograte.Limit
	buffer   []byte
	failures int
}

// ErrFailed is what Serve returns when some files could not be copied; the client has been told
// which and why.
var ErrFailed = errors.New("scp: not everything was copied")

// Serve runs command on stream, which it does not close. The error is nil when all went well; the
// exit status that a client wants to see is 1 with any other. The logger may be nil.
func Serve(ctx context.Context, stream io.ReadWriter, view *server.View, command *Command,
	logger *slog.Logger) error {
	log := lograte.Cut(logger)
	s := &session{
		ctx:     ctx,
		view:    view.Logged(log.With("protocol", "scp")),
		command: command,
		in:      bufio.NewReaderSize(stream, maxLine),
		out:     stream,
		log:     log,
	}
	var err error
	if command.Source {
		err = s.source()
	} else {
		err = s.sink()
	}
	if err == nil && s.failures > 0 {
		err = ErrFailed
	}
	return err
}

// fatal is an error after which the two sides do not understand each other any more.
type fatal struct{ text string }

func (f *fatal) Error() string { return "scp: " + f.text }

// fail tells the client of something that went wrong with one file, after which it goes on.
func (s *session) fail(name string, cause error) error {
	s.failures++
	s.logFailure(name, cause)
	return s.say(fmt.Sprintf("\x01scp: %s: %s\n", oneLine(name),
		oneLine(server.ErrorMessage(cause))))
}

// logFailure writes the line that tells of what could not be done, or was not allowed.
func (s *session) logFailure(name string, cause error) {
	ok, omitted := s.rate.Take()
	if !ok {
		return
	}
	args := []any{"request", "scp -t", "path", name, "protocol", "scp", "error", cause}
	if s.command.Source {
		args[1] = "scp -f"
	}
	if omitted > 0 {
		args = append(args, "omitted", omitted)
	}
	if errors.Is(cause, fs.ErrPermission) || errors.Is(cause, server.ErrQuota) {
		s.log.Info("request denied", args...)
		return
	}
	s.log.Warn("scp failed", args...)
}

// clientFailed notes what the client says of a file that it could not copy, and goes on after.
func (s *session) clientFailed(text string) {
	s.failures++
	if ok, _ := s.rate.Take(); ok {
		s.log.Warn("scp: the client failed", "message", text)
	}
}

// giveUp tells the client why the session ends.
func (s *session) giveUp(text string) error {
	s.say("\x02scp: " + oneLine(text) + "\n")
	return &fatal{text}
}

func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, text)
}

func (s *session) say(text string) error {
	_, err := io.WriteString(s.out, text)
	return err
}

func (s *session) ok() error { return s.say("\x00") }

// answer reads the client's answer. It reports whether to go on with the file at hand; an error
// ends the session.
func (s *session) answer() (ok bool, err error) {
	code, err := s.in.ReadByte()
	if err != nil {
		return false, lost(err)
	}
	if code == 0 {
		return true, nil
	}
	text, err := s.line()
	if err != nil {
		return false, err
	}
	if code == 1 {
		s.clientFailed(text)
		return false, nil
	}
	return false, &fatal{"the client gave up: " + text}
}

// line reads a line.
func (s *session) line() (string, error) {
	line, err := s.in.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		return "", s.giveUp("a line of the protocol is too long")
	}
	if err != nil {
		return "", lost(err)
	}
	return string(line[:len(line)-1]), nil
}

// lost is what the end of the stream means where more was to come.
func lost(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (s *session) scratch() []byte {
	if s.buffer == nil {
		s.buffer = make([]byte, bufferSize)
	}
	return s.buffer
}

// logTransfer writes the line that says what became of a file.
func (s *session) logTransfer(transfer, what, name string, bytes int64, since time.Time) {
	s.log.Info("file closed", "path", name, "transfer", transfer, what, bytes, "seconds",
		server.RoundSeconds(time.Since(since)), "protocol", "scp")
}

// resolve turns an argument into a path of the view.
func (s *session) resolve(w Word, name string) (string, error) {
	if w.Tilde {
		user, rest, _ := strings.Cut(name[1:], "/")
		home, err := s.view.HomeDir(s.ctx, user)
		if err != nil {
			return "", err
		}
		name = home + "/" + rest
	}
	if name == "" {
		name = "."
	}
	return s.view.Path(name), nil
}

// join adds a name to a path, which stays as the client sent it: what ".." means is for the backend
// to say.
func join(dir, name string) string { return strings.TrimSuffix(dir, "/") + "/" + name }

var errNotRegular = errors.New("not a regular file")

func isDirectory(info fs.FileInfo, err error) bool { return err == nil && info.IsDir() }
