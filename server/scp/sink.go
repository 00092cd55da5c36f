package scp

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"
	"time"

	protocol "github.com/usftp/usftp/internal/scp"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/internal/shown"
	"github.com/usftp/usftp/wire"
)

// sink takes files from the client (scp -t).
func (s *session) sink() error {
	word := s.command.Paths[0]
	if err := s.view.Allows("write"); err != nil {
		s.failed(word.Literal(), err)
		return s.giveUp(shown.Message(err))
	}
	target, err := s.resolve(word, word.Literal(), asItIs)
	if err != nil {
		return s.giveUp(fmt.Sprintf("%s: %s", word.Literal(), shown.Message(err)))
	}
	isDir := isDirectory(s.view.Stat(s.ctx, target))
	if s.command.IsDirectory && !isDir {
		return s.giveUp(target + ": not a directory")
	}
	if err := s.ok(); err != nil {
		return err
	}
	return s.receive(target, isDir, 0)
}

// header announces a file or directory.
type header struct {
	protocol.Header
	times wire.Attrs // from a T line before it, or none
}

// attrs returns the attributes to set at the end: the times, and the mode if asked for.
func (h *header) attrs(mode bool) wire.Attrs {
	attrs := h.times
	if mode {
		attrs.Flags |= wire.AttrPermissions
		attrs.Permissions = h.Mode
	}
	return attrs
}

// receive receives files into target until the directory, whose end it leaves to be answered, or
// the session, ends.
func (s *session) receive(target string, isDir bool, depth int) error {
	var times wire.Attrs
	for {
		line, err := s.next(depth)
		if err != nil || line == "" {
			return err
		}
		switch line[0] {
		case 'E':
			if depth == 0 {
				return s.giveUp("the end of a directory without its beginning")
			}
			return nil
		case 'T':
			if times, err = parseTimes(line); err != nil {
				return s.giveUp(err.Error())
			}
			if err := s.ok(); err != nil {
				return err
			}
		case 'C', 'D':
			head, err := parseHeader(line)
			if err == nil && head.Directory && !s.command.Recursive {
				err = errors.New("a directory, but -r was not given")
			}
			if err != nil {
				return s.giveUp(err.Error())
			}
			head.times, times = times, wire.Attrs{}
			if err := s.receiveOne(target, isDir, head, depth); err != nil {
				return err
			}
		case 1:
			s.clientFailed(line[1:])
		case 2:
			return &fatal{"the client gave up: " + line[1:]}
		default:
			return s.giveUp("not a line of the protocol")
		}
	}
}

// next reads a line; "" means the end, which is allowed only between files.
func (s *session) next(depth int) (string, error) {
	if _, err := s.in.Peek(1); err == io.EOF && depth == 0 {
		return "", nil
	}
	line, err := s.line()
	if err == nil && line == "" {
		err = s.giveUp("an empty line")
	}
	return line, err
}

func (s *session) receiveOne(target string, isDir bool, head *header, depth int) error {
	name := target
	if isDir {
		name = join(target, head.Name)
	}
	if head.Directory {
		return s.receiveDirectory(name, head, depth)
	}
	return s.receiveFile(name, head)
}

func (s *session) receiveDirectory(name string, head *header, depth int) error {
	if depth == protocol.MaxDepth {
		return s.giveUp("directories are nested too deeply")
	}
	info, err := s.view.Stat(s.ctx, name)
	made := errors.Is(err, fs.ErrNotExist)
	switch {
	case made:
		// Until its end the directory must be writable.
		mode := wire.Attrs{Flags: wire.AttrPermissions, Permissions: head.Mode | 0o700}
		err = s.view.Mkdir(s.ctx, name, mode)
	case err == nil && !info.IsDir():
		err = syscall.ENOTDIR
	}
	if err != nil {
		return s.fail(name, err)
	}
	if err := s.ok(); err != nil {
		return err
	}
	if err := s.receive(name, true, depth+1); err != nil {
		return err
	}
	// One answer to the end: with a second one the client would take every answer after it for the
	// one before, and send contents as lines, and lines as contents.
	attrs := head.attrs(s.command.Preserve)
	if made && !s.command.Preserve && head.Mode&0o700 != 0o700 {
		err = s.takeBack(name, head.Mode, &attrs)
	}
	if err == nil && attrs.Flags != 0 {
		err = s.view.Setstat(s.ctx, name, attrs)
	}
	if err != nil {
		return s.fail(name, err)
	}
	return s.ok()
}

// takeBack sets the mode in attrs to that of a directory without what only its making needed. The
// umasks, which apply to what is made, have been applied to it.
func (s *session) takeBack(name string, mode uint32, attrs *wire.Attrs) error {
	info, err := s.view.Stat(s.ctx, name)
	if err == nil {
		attrs.Flags |= wire.AttrPermissions
		attrs.Permissions = server.AttrsOf(info).Permissions & 0o7777 &^ (0o700 &^ mode)
	}
	return err
}

func (s *session) receiveFile(name string, head *header) error {
	mode := wire.Attrs{Flags: wire.AttrPermissions, Permissions: head.Mode}
	file, err := s.view.Create(s.ctx, name, mode)
	if err != nil {
		return s.fail(name, err)
	}
	came := s.begin(name, true)
	if err := s.ok(); err != nil {
		return s.abandon(file, came, err)
	}
	writeErr, err := s.receiveContents(file, head.Size, came)
	if err != nil {
		return s.abandon(file, came, err)
	}
	// The client reports whether it could read everything that it sent.
	complete, err := s.answer()
	switch {
	case err != nil:
		return s.abandon(file, came, err)
	case !complete:
		s.abandon(file, came, errUnread)
		return s.ok()
	}
	if writeErr == nil {
		writeErr = file.Truncate(head.Size)
	}
	if attrs := head.attrs(s.command.Preserve); writeErr == nil && attrs.Flags != 0 {
		writeErr = file.Setstat(attrs)
	}
	if writeErr != nil {
		s.abandon(file, came, writeErr)
		return s.failAbandoned(name, writeErr)
	}
	came.hash(file)
	end, err := s.reports.Begin(came.event(server.FileClosed, nil))
	if err != nil {
		s.abandon(file, came, err)
		return s.failAbandoned(name, err)
	}
	err = file.Close()
	end(err)
	if err != nil {
		s.report(came, server.FileFailed, err)
		return s.tell(name, err)
	}
	s.ended(came, nil)
	return s.ok()
}

// abandon abandons an incomplete file, and returns the reason.
func (s *session) abandon(file *server.ViewFile, came *transfer, reason error) error {
	file.Abandon(reason)
	return s.ended(came, reason)
}

// errUnread is the reason to abandon a file that the client could not read to its end: scp then
// sends zeros.
var errUnread = errors.New("the client could not read all of the file")

// receiveContents reads exactly size bytes. After a failed write it reads and discards the rest, so
// that the two sides stay in step.
func (s *session) receiveContents(file io.WriterAt, size int64,
	came *transfer) (writeErr, err error) {
	buffer := s.scratch()
	for offset := int64(0); offset < size; {
		if err := s.ctx.Err(); err != nil {
			return writeErr, err
		}
		n, err := s.in.Read(buffer[:min(size-offset, int64(len(buffer)))])
		if writeErr == nil && n > 0 {
			var written int
			written, writeErr = file.WriteAt(buffer[:n], offset)
			came.moved.Add(0, int64(max(written, 0)))
			if writeErr == nil {
				came.sum.Pass(buffer[:n], uint64(offset))
			}
		}
		offset += int64(n)
		if err != nil && offset < size {
			return writeErr, lost(err)
		}
	}
	return writeErr, nil
}

// parseHeader parses a C or D line.
func parseHeader(line string) (*header, error) {
	head, err := protocol.ParseHeader(line)
	// The name must be a single path element: "..", "a/b" and the like would lead elsewhere.
	if err == nil && !shown.Name(head.Name) {
		err = fmt.Errorf("invalid name %q", head.Name)
	}
	return &header{Header: head}, err
}

// parseTimes parses a T line.
func parseTimes(line string) (wire.Attrs, error) {
	times, err := protocol.ParseTimes(line)
	if err != nil {
		return wire.Attrs{}, err
	}
	return wire.Attrs{
		Flags: wire.AttrACModTime,
		MTime: server.Seconds(time.Unix(times.Mtime, 0)),
		ATime: server.Seconds(time.Unix(times.Atime, 0)),
	}, nil
}
