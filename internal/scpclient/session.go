// Package scpclient is the client of the protocol that scp used before SFTP, for devices that offer
// nothing else. It talks to an scp that runs on the host with -f or -t.
//
// That scp is not trusted. The names it sends must be single names, and at the top only names that
// were asked for (CVE-2019-6111); everything is written below an [os.Root]. Lines, depths and the
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

// Options are the options of a copy.
type Options struct {
	Recursive  bool
	Times      bool  // files and directories get the source's times
	Modes      bool  // and its permissions, also where the target exists
	MaxDepth   int   // of directories; 0 for the protocol's own limit
	MaxEntries int64 // 0 for no limit
	SkipLinks  bool  // on this machine; otherwise they are followed, as scp does
}

// A Listener learns the fate of each file. Its methods are called one after the other. If the
// session breaks off, a file that began does not end.
type Listener interface {
	Began(source, target string, size int64)
	Moved(n int) error // n more bytes; an error ends the session
	Ended(err error)   // of the file that began

	Made(dir string)               // a directory was made
	Skipped(source, why string)    // it is not copied, which is no failure
	Failed(source string, e error) // source did not begin
}

// ErrFailed is returned if some files were not copied. The Listener knows which.
var ErrFailed = errors.New("not everything was copied")

// ErrNotSCP reports that the host has sent something outside the protocol.
var ErrNotSCP = errors.New("the host does not speak scp's protocol")

// bufferSize is the most that is read or written at once.
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
	placed  bool // something was made at the target, or changed
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

// A placing maps the names at one target to their sources, so that no source replaces another.
type placing map[string]string

// place runs copy, which places source, unless another source has the name, even if that was copied
// only in part.
func (s *session) place(in placing, name, source string, copy func() error) error {
	if earlier, twice := in[name]; twice {
		err := fmt.Errorf("%s was copied there under the same name", earlier)
		s.fail(source, err)
		if s.sending {
			return nil
		}
		return s.refuse(err)
	}
	s.placed = false
	err := copy()
	if s.placed {
		in[name] = source
	}
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

// write sends p. If that fails while sending, the host may have said why before it went.
func (s *session) write(p []byte) error {
	_, err := s.out.Write(p)
	if err == nil || !s.sending {
		return err
	}
	refused, gone := s.answer()
	return cmp.Or(refused, gone, err)
}

func (s *session) ok() error { return s.say("\x00") }

// refuse tells the host why something is refused; the session continues.
func (s *session) refuse(cause error) error {
	return s.say("\x01scp: " + oneLine(cause.Error()) + "\n")
}

// giveUp tells the host why the session ends, and returns the reason.
func (s *session) giveUp(cause error) error {
	s.say("\x02scp: " + oneLine(cause.Error()) + "\n")
	return cause
}

// oneLine makes a text fit into one line of the protocol.
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

// hostFailure returns the host's message, which usually begins with the name of its program.
func hostFailure(text string) error {
	return &hostError{oneLine(strings.TrimPrefix(strings.TrimSpace(text), "scp: "))}
}

// answer reads the host's answer. refused says why the host refuses this file; an error ends the
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
	// output of a start-up file of the user's shell comes before the protocol
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

// line reads a line, without its end. At the end of the stream it returns the partial line and
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

// lost translates an end of the stream where more data was expected.
func lost(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
