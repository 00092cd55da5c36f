package scp

import (
	"errors"
	"io"
	"io/fs"
	"path"

	protocol "github.com/usftp/usftp/internal/scp"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/internal/shown"
	"github.com/usftp/usftp/wire"
)

// source sends files to the client (scp -f).
func (s *session) source() error {
	if ok, err := s.answer(); !ok {
		return err
	}
	if err := s.view.Allows("read"); err != nil {
		s.failed(s.command.Paths[0].Literal(), err)
		return s.giveUp(shown.Message(err))
	}
	for _, word := range s.command.Paths {
		names, err := s.expand(word)
		if err != nil {
			if err := s.fail(word.Literal(), err); err != nil {
				return err
			}
			continue
		}
		for _, name := range names {
			if err := s.sendAny(name, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// sendAny sends a file, or a directory and its contents. Like scp it follows links.
func (s *session) sendAny(name string, depth int) error {
	if err := s.ctx.Err(); err != nil {
		return err
	}
	// In the protocol a newline ends the name, and what follows would be another header.
	if base := path.Base(name); oneLine(base) != base {
		return s.fail(name, errUncarried)
	}
	info, err := s.view.Stat(s.ctx, name)
	switch {
	case err != nil:
		return s.fail(name, err)
	case info.IsDir() && s.command.Recursive:
		return s.sendDirectory(name, info, depth)
	case !info.Mode().IsRegular():
		return s.fail(name, errNotRegular)
	}
	return s.sendFile(name)
}

// sendTimes sends a file's times if -p asks for them. It reports whether to continue with the file.
func (s *session) sendTimes(attrs *wire.Attrs) (ok bool, err error) {
	if !s.command.Preserve || !attrs.Has(wire.AttrACModTime) {
		return true, nil
	}
	return s.ask(protocol.Times{Mtime: int64(attrs.MTime), Atime: int64(attrs.ATime)}.String())
}

func (s *session) sendDirectory(name string, info fs.FileInfo, depth int) error {
	if depth == protocol.MaxDepth {
		return s.fail(name, errors.New("directories are nested too deeply"))
	}
	attrs := server.AttrsOf(info)
	if ok, err := s.sendTimes(&attrs); !ok {
		return err
	}
	if ok, err := s.ask(protocol.Header{Directory: true, Mode: attrs.Permissions & 0o7777,
		Name: path.Base(name)}.String()); !ok {
		return err
	}
	for entry, err := range s.view.List(s.ctx, name) {
		if err != nil {
			if err := s.fail(name, err); err != nil {
				return err
			}
			break
		}
		below := join(name, entry.Name())
		if shown.Name(entry.Name()) {
			err = s.sendAny(below, depth+1)
		} else {
			err = s.fail(below, errUncarried)
		}
		if err != nil {
			return err
		}
	}
	_, err := s.ask("E\n")
	return err
}

func (s *session) sendFile(name string) error {
	file, err := s.view.Open(s.ctx, name, wire.OpenRead, wire.Attrs{})
	if err != nil {
		return s.fail(name, err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return s.fail(name, err)
	}
	attrs := server.AttrsOf(info)
	if ok, err := s.sendTimes(&attrs); !ok {
		return err
	}
	size := int64(attrs.Size)
	if ok, err := s.ask(protocol.Header{Mode: attrs.Permissions & 0o7777, Size: size,
		Name: path.Base(name)}.String()); !ok {
		return err
	}
	went := s.begin(name, false)
	readErr, err := s.sendContents(file, size, went)
	switch {
	case err != nil:
		return s.ended(went, err)
	case readErr != nil:
		s.ended(went, readErr)
		err = s.failAbandoned(name, readErr)
	default:
		went.hash(file)
		err = s.ended(went, s.ok())
	}
	if err != nil {
		return err
	}
	_, err = s.answer()
	return err
}

var errUncarried = errors.New("a name that the protocol cannot carry")

var errShrank = errors.New("the file became shorter while it was read")

// sendContents sends exactly the announced size. Unreadable parts are sent as zeros and then
// reported.
func (s *session) sendContents(file io.ReaderAt, size int64,
	went *transfer) (readErr, err error) {
	buffer := s.scratch()
	for offset := int64(0); offset < size; {
		if err := s.ctx.Err(); err != nil {
			return readErr, err
		}
		piece := buffer[:min(size-offset, int64(len(buffer)))]
		n := 0
		if readErr == nil {
			n, readErr = file.ReadAt(piece, offset)
			if n == len(piece) {
				readErr = nil
			} else if readErr == io.EOF || readErr == nil {
				readErr = errShrank
			}
		}
		clear(piece[n:])
		if _, err := s.out.Write(piece); err != nil {
			return readErr, err
		}
		went.moved.Add(int64(n), 0)
		went.sum.Pass(piece[:n], uint64(offset))
		offset += int64(len(piece))
	}
	return readErr, nil
}
