// Package scp serves the protocol that scp used before SFTP, and that scp -O still uses.
//
// The client sends the command line of an scp that the server is to run, and then talks to that
// scp. Here the line is parsed and never run, and files are served by the backend that serves SFTP.
package scp

import (
	"bufio"
	"cmp"
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
	"github.com/usftp/usftp/server/internal/shown"
)

const (
	// maxLine is the longest line of the protocol: a path and some numbers.
	maxLine = 4096 + 128

	// maxDepth is how deep directories may be nested.
	maxDepth = 256

	// bufferSize is what is read and written at once. With larger ones system calls take so long
	// that the runtime hands the processor to other goroutines, which costs more than the calls
	// saved.
	bufferSize = 63 << 10
)

// session is one session of the protocol.
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

// ErrFailed is returned by Serve if some files could not be copied. The client has been told which
// and why.
var ErrFailed = errors.New("scp: not everything was copied")

// Serve runs command on stream, which it does not close. If it returns an error, the client should
// get exit status 1. The logger may be nil.
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

// fatal is an error after which the two sides are no longer in step.
type fatal struct{ text string }

func (f *fatal) Error() string { return "scp: " + f.text }

// fail tells the client what went wrong with one file; the session continues.
func (s *session) fail(name string, cause error) error {
	s.logFailure(name, cause)
	return s.tell(name, cause)
}

// failAbandoned is fail for a file whose abandonment has been logged, with the cause.
func (s *session) failAbandoned(name string, cause error) error {
	if isDenial(cause) {
		s.logFailure(name, cause)
	}
	return s.tell(name, cause)
}

func (s *session) tell(name string, cause error) error {
	s.failures++
	return s.say(fmt.Sprintf("\x01scp: %s: %s\n", oneLine(name),
		oneLine(shown.Message(cause))))
}

// logFailure logs what failed or was denied.
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
	if isDenial(cause) {
		s.log.Info("request denied", args...)
		return
	}
	s.log.Warn("scp failed", args...)
}

func isDenial(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, server.ErrQuota)
}

// clientFailed records the client's message about a file that it could not copy; the session
// continues.
func (s *session) clientFailed(text string) {
	s.failures++
	if ok, _ := s.rate.Take(); ok {
		s.log.Warn("scp: the client failed", "message", text)
	}
}

// giveUp tells the client why the session ends early.
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

// answer reads the client's answer. It reports whether to continue with this file. An error ends
// the session.
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

// ask sends a line and reads the answer to it.
func (s *session) ask(format string, args ...any) (ok bool, err error) {
	if err := s.say(fmt.Sprintf(format, args...)); err != nil {
		return false, err
	}
	return s.answer()
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

// lost translates an end of the stream where more was expected.
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

// transfer is what the log says about a file.
type transfer struct {
	name   string
	upload bool
	bytes  int64 // that came or went
	began  time.Time
}

func (t *transfer) args() []any {
	kind, what := "download", "read"
	if t.upload {
		kind, what = "upload", "written"
	}
	seconds := time.Since(t.began).Round(time.Millisecond).Seconds()
	args := []any{"path", t.name, "transfer", kind, what, t.bytes, "seconds", seconds,
		"protocol", "scp"}
	if t.bytes > 0 && seconds > 0 {
		args = append(args, "bytes_per_second", int64(float64(t.bytes)/seconds))
	}
	return args
}

// logTransfer logs that a file was copied.
func (s *session) logTransfer(t *transfer) { s.log.Info("file closed", t.args()...) }

// logAbandoned logs that a file was not copied completely, and returns the reason.
func (s *session) logAbandoned(t *transfer, reason error) error {
	s.log.Warn("file abandoned", append(t.args(), "error", reason)...)
	return reason
}

// resolve turns an argument into a path in the view.
func (s *session) resolve(w Word, name string) (string, error) {
	if w.Tilde {
		user, rest, _ := strings.Cut(name[1:], "/")
		home, err := s.view.HomeDir(s.ctx, user)
		if err != nil {
			return "", err
		}
		name = home + "/" + rest
	}
	return s.view.Path(cmp.Or(name, ".")), nil
}

// join appends a name to a path without cleaning it: the backend decides what ".." means.
func join(dir, name string) string { return strings.TrimSuffix(dir, "/") + "/" + name }

var errNotRegular = errors.New("not a regular file")

func isDirectory(info fs.FileInfo, err error) bool { return err == nil && info.IsDir() }
