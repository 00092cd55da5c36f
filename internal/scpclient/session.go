// Package scpclient is the client of the protocol that scp used before SFTP, for devices that have
// nothing else. It talks to an scp that runs on the host with -f or -t.
//
// That scp is not believed. Names that it sends are single names, at the top only those that were
// asked for (CVE-2019-6111), and everything is written below an [os.Root]. Lines, depths and the
// number of entries are bounded; sizes are only ever counted down.
package scpclient

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/usftp/usftp/internal/scp"
)

// Options are those of a copy.
type Options struct {
	Recursive  bool
	Times      bool  // files and directories get the source's times
	Modes      bool  // and its permissions, also where the target exists
	MaxDepth   int   // of directories; 0 for the protocol's own limit
	MaxEntries int64 // 0 for no limit
	SkipLinks  bool  // of this machine; otherwise they are followed, as scp does
}

// A Listener is told what becomes of each file. Its methods are called one after the other. If the
// session is broken off, a file that began does not end.
type Listener interface {
	Began(source, target string, size int64)
	Moved(n int) error // n more bytes; an error ends the session
	Ended(err error)   // of the file that began

	Made(dir string)               // a directory was made
	Skipped(source, why string)    // it is not copied, which is no failure
	Failed(source string, e error) // what did not begin
}

// ErrFailed is returned if some files were not copied. The Listener knows which.
var ErrFailed = errors.New("not everything was copied")

// ErrNotSCP reports that the host has said something that is not the protocol.
var ErrNotSCP = errors.New("the host does not speak scp's protocol")

// bufferSize is what is read and written at once.
const bufferSize = 128 << 10

// A session is one conversation.
type session struct {
	Options
	Listener
	ctx     context.Context
	in      *bufio.Reader
	out     io.Writer
	buffer  []byte
	entries int64
	failed  bool
	sending bool
}

func newSession(ctx context.Context, stream io.ReadWriter, o Options, l Listener) *session {
	o.MaxDepth = min(cmp.Or(o.MaxDepth, scp.MaxDepth), scp.MaxDepth)
	return &session{Options: o, Listener: l, ctx: ctx, out: stream,
		in: bufio.NewReaderSize(stream, bufferSize), buffer: make([]byte, bufferSize)}
}

// end returns the result of a session that was not broken off.
func (s *session) end() error {
	if s.failed {
		return ErrFailed
	}
	return nil
}

// fail reports a file that was not copied; the session continues.
func (s *session) fail(source string, err error) {
	s.failed = true
	s.Failed(source, err)
}

// A placing has the sources at one target, by name, so that none replaces another.
type placing map[string]string

// place runs copy, which places source, unless something else has the name.
func (s *session) place(in placing, name, source string, copy func() error) error {
	if earlier, twice := in[name]; twice {
		err := fmt.Errorf("%s was copied there under the same name", earlier)
		s.fail(source, err)
		if s.sending {
			return nil
		}
		return s.refuse(err)
	}
	before := s.failed
	s.failed = false
	err := copy()
	if !s.failed {
		in[name] = source
	}
	s.failed = s.failed || before
	return err
}

// count counts an entry.
func (s *session) count() error {
	if s.entries++; s.MaxEntries > 0 && s.entries > s.MaxEntries {
		return fmt.Errorf("more than %d entries (--max-entries allows more)",
			s.MaxEntries)
	}
	return s.ctx.Err()
}

func (s *session) say(text string) error { return s.write([]byte(text)) }

// write sends p. If that fails while files are sent, the host may have said why before it went.
func (s *session) write(p []byte) error {
	_, err := s.out.Write(p)
	if err == nil || !s.sending {
		return err
	}
	refused, gone := s.answer()
	return cmp.Or(refused, gone, err)
}

func (s *session) ok() error { return s.say("\x00") }

// refuse tells the host why something is not taken; the session continues.
func (s *session) refuse(cause error) error {
	return s.say("\x01scp: " + oneLine(cause.Error()) + "\n")
}

// giveUp tells the host why the session ends, and returns the reason.
func (s *session) giveUp(cause error) error {
	s.say("\x02scp: " + oneLine(cause.Error()) + "\n")
	return cause
}

// oneLine makes a text fit into a line of the protocol.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, text)
	return text[:min(len(text), 256)]
}

// A hostError is a failure in the host's words.
type hostError struct{ text string }

func (e *hostError) Error() string { return "the host says: " + e.text }

// hostFailure returns what the host has said, which usually begins with the name of its program.
func hostFailure(text string) error {
	return &hostError{oneLine(strings.TrimPrefix(strings.TrimSpace(text), "scp: "))}
}

// answer reads the host's answer. refused is why it does not take this file; an error ends the
// session.
func (s *session) answer() (refused, err error) {
	code, err := s.in.ReadByte()
	if err != nil {
		return nil, lost(err)
	}
	if code == 0 {
		return nil, nil
	}
	text, err := s.line()
	switch {
	case code == 1 && err == nil:
		return hostFailure(text), nil
	case code == 2 && err == nil:
		return nil, hostFailure(text)
	case err != nil && err != io.ErrUnexpectedEOF:
		return nil, err
	}
	// what a start-up file of the user's shell prints comes before the protocol
	return nil, fmt.Errorf("%w: it sent %q (a start-up file there must print nothing)", ErrNotSCP,
		oneLine(string(code)+text))
}

// ask sends a line and reads the answer to it.
func (s *session) ask(line string) (refused, err error) {
	if err := s.say(line); err != nil {
		return nil, err
	}
	return s.answer()
}

// line reads a line, without its end. At the end of the stream it returns what there was, and
// io.ErrUnexpectedEOF.
func (s *session) line() (string, error) {
	var line []byte
	for len(line) <= scp.MaxLine {
		c, err := s.in.ReadByte()
		if err != nil {
			return string(line), lost(err)
		}
		if c == '\n' {
			return string(line), nil
		}
		line = append(line, c)
	}
	return "", s.giveUp(fmt.Errorf("%w: it sent a line that is too long", ErrNotSCP))
}

// lost translates an end of the stream where more was expected.
func lost(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
