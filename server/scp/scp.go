// Package scp serves the protocol that scp used before SFTP, and scp -O still uses.
//
// The client sends the command line of an scp to run on the server, and then talks to that scp.
// Here the line is parsed and never run, and files are served by the backend that serves SFTP.
package scp

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	protocol "github.com/usftp/usftp/internal/scp"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/internal/shown"
	"github.com/usftp/usftp/server/internal/whole"
)

// bufferSize is the number of bytes read and written at once. With more, system calls take so long
// that the runtime hands the processor to other goroutines, which costs more than it saves.
const bufferSize = 63 << 10

// session is one session of the protocol.
type session struct {
	ctx      context.Context
	view     *server.View
	command  *Command
	in       *bufio.Reader
	out      io.Writer
	reports  *server.Reporter
	buffer   []byte
	failures int
}

// ErrFailed is returned by Serve if some files could not be copied. The client has been told which
// and why.
var ErrFailed = errors.New("scp: not everything was copied")

// Serve runs command on stream, which it does not close. If it returns an error, the client should
// get exit status 1. The reporter may be nil.
func Serve(ctx context.Context, stream io.ReadWriter, view *server.View, command *Command,
	reports *server.Reporter) error {
	s := &session{
		ctx:     ctx,
		view:    view.Reporting(reports),
		command: command,
		in:      bufio.NewReaderSize(stream, protocol.MaxLine),
		out:     stream,
		reports: reports,
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

// fatal is an error after which client and server are out of step.
type fatal struct{ text string }

func (f *fatal) Error() string { return "scp: " + f.text }

// fail reports the failure of one file, and tells the client; the session continues.
func (s *session) fail(name string, cause error) error {
	s.failed(name, cause)
	return s.tell(name, cause)
}

// failAbandoned fails a file that has been reported as abandoned. The cause is in that report, so
// only a denial is reported as well.
func (s *session) failAbandoned(name string, cause error) error {
	if server.Denier(cause) != "" {
		s.failed(name, cause)
	}
	return s.tell(name, cause)
}

func (s *session) tell(name string, cause error) error {
	s.failures++
	return s.say(fmt.Sprintf("\x01scp: %s: %s\n", oneLine(name),
		oneLine(shown.Message(cause))))
}

// failed reports a failure or denial.
func (s *session) failed(name string, cause error) {
	e := server.Event{Kind: server.CopyFailed, Request: "scp -t", Path: name, Err: cause}
	if s.command.Source {
		e.Request = "scp -f"
	}
	if e.By = server.Denier(cause); e.By != "" {
		e.Kind = server.RequestDenied
	}
	s.reports.Report(e)
}

// clientFailed records the client's message about a file that it could not copy; the session
// continues.
func (s *session) clientFailed(text string) {
	s.failures++
	s.reports.Report(server.Event{Kind: server.ClientFailed, Err: errors.New(text)})
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

// ask sends a line and reads the answer.
func (s *session) ask(line string) (ok bool, err error) {
	if err := s.say(line); err != nil {
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

// lost translates a premature end of the stream.
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

// transfer is a file being copied.
type transfer struct {
	name   string
	upload bool
	moved  server.Transfer
	sum    *whole.Sum // nil unless wanted
	sha256 string
	began  time.Time
}

// begin reports that a file is open.
func (s *session) begin(name string, upload bool) *transfer {
	t := &transfer{name: name, upload: upload, began: time.Now()}
	if s.reports != nil && s.reports.Hashes {
		t.sum = whole.New()
	}
	s.reports.Report(server.Event{Kind: server.FileOpened, Path: name, Upload: upload,
		Transfer: &t.moved})
	return t
}

// ended reports that a file was copied or, with a reason, that it is incomplete, and returns the
// reason.
func (s *session) ended(t *transfer, reason error) error {
	if reason != nil {
		s.report(t, server.FileAbandoned, reason)
	} else {
		s.report(t, server.FileClosed, nil)
	}
	return reason
}

// report reports the end of a file.
func (s *session) report(t *transfer, kind server.EventKind, reason error) {
	s.reports.Report(t.event(kind, reason))
}

func (t *transfer) event(kind server.EventKind, reason error) server.Event {
	e := server.Event{Kind: kind, Path: t.name, Upload: t.upload, Transfer: &t.moved,
		Took: time.Since(t.began), Err: reason}
	e.Read, e.Written = t.moved.Moved()
	if kind == server.FileClosed {
		e.SHA256 = t.sha256
	}
	return e
}

// hash records the hash of the bytes that passed, if they are the whole file.
func (t *transfer) hash(file *server.ViewFile) {
	t.sha256 = t.sum.Hex(func() int64 {
		info, err := file.Stat()
		if err != nil {
			return -1
		}
		return info.Size()
	})
}

// resolve turns an argument into a path in the view. quote is what a home needs in front of it.
func (s *session) resolve(w Word, name string, quote func(home string) string) (string, error) {
	switch {
	case w.Tilde:
		user, rest, _ := strings.Cut(name[1:], "/")
		home, err := s.view.HomeDir(s.ctx, user)
		if err != nil {
			return "", err
		}
		name = quote(home) + "/" + rest
	case !strings.HasPrefix(name, "/"):
		name = join(quote(s.view.Path("")), cmp.Or(name, "."))
	}
	return s.view.Path(name), nil
}

// asItIs quotes nothing.
func asItIs(home string) string { return home }

// join appends a name to a path without cleaning it: the backend gives ".." its meaning.
func join(dir, name string) string { return strings.TrimSuffix(dir, "/") + "/" + name }

var errNotRegular = errors.New("not a regular file")

func isDirectory(info fs.FileInfo, err error) bool { return err == nil && info.IsDir() }
