package usftp

import (
	"bytes"
	"errors"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/wire"
)

// Some servers send no permissions, or permissions without a file's type. A directory is then told
// from a file by the line that comes with its name in a listing, or by whether it can be opened as
// one.

// settle uses what is known of the server: one that tells the type of directories leaves it out for
// regular files.
func (s *session) settle(stat *FileStat) {
	switch {
	case stat.Mode&typeMask == typeDir:
		if stat.HasMode() && !s.tellsDirs.Load() {
			s.tellsDirs.Store(true)
		}
	case !stat.HasType() && stat.HasMode() && s.tellsDirs.Load():
		stat.Mode |= typeFile
	}
}

// A question is one about a file's type.
type question struct {
	op, name string // for errors
	info     fs.FileInfo
	follow   bool // a link
}

// is returns how to take the answer that the file is of a type.
func (q *question) is(s *session, kind uint32) func(*conn.Call) (fs.FileInfo, error) {
	return func(call *conn.Call) (fs.FileInfo, error) {
		if call.Handle != nil {
			s.closeHandle(call.Handle)
		}
		q.stat().Mode |= kind
		return q.info, nil
	}
}

func (q *question) stat() *FileStat { return q.info.Sys().(*FileStat) }

// findType returns the first request that finds out a file's type, or nil if it is known.
func (s *session) findType(q question) *operation[fs.FileInfo] {
	if s.settle(q.stat()); q.stat().HasType() {
		return nil
	}
	if q.follow {
		return s.asDir(q)
	}
	link := ask(s, q.op, q.name, wire.TypeName,
		wire.PathRequest{Type: wire.TypeReadlink, Path: q.name},
		func(call *conn.Call) (fs.FileInfo, error) {
			to, err := s.onlyPath(call)
			if err != nil {
				return nil, err
			}
			// some servers answer for all files, with their own paths
			if to != "" && path.Clean(to) != path.Clean(q.name) {
				q.stat().Mode |= typeLink
				return q.info, nil
			}
			return nil, unfinished[fs.FileInfo]{s.asDir(q)}
		})
	link.refused = settled[fs.FileInfo]{q.info}
	link.instead = func(refusal error) *operation[fs.FileInfo] {
		if errors.Is(refusal, fs.ErrNotExist) {
			return s.asDir(q)
		}
		return s.asLink(q) // it may be one all the same
	}
	return &link
}

// asLink asks where a path leads on a server that reads no links: what is behind one must not be
// taken for what is in a directory. It finds no link where REALPATH only tidies a path's text.
func (s *session) asLink(q question) *operation[fs.FileInfo] {
	base := path.Base(q.name)
	if strings.HasSuffix(q.name, "/") || base == "." || base == ".." {
		return s.asDir(q) // what it leads to
	}
	return s.asReal(q, q.name, func(real string) *operation[fs.FileInfo] {
		return s.asReal(q, path.Dir(q.name), func(dir string) *operation[fs.FileInfo] {
			if !strings.EqualFold(real, path.Join(dir, base)) {
				q.stat().Mode |= typeLink
				return nil
			}
			return s.asDir(q)
		})
	})
}

// asReal asks for a real path. Servers for Windows may answer with backslashes.
func (s *session) asReal(q question, name string,
	next func(real string) *operation[fs.FileInfo]) *operation[fs.FileInfo] {
	real := ask(s, q.op, name, wire.TypeName, wire.PathRequest{Type: wire.TypeRealpath, Path: name},
		func(call *conn.Call) (fs.FileInfo, error) {
			real, err := s.onlyPath(call)
			if err != nil {
				return nil, err
			}
			if real == "" {
				return nil, unfinished[fs.FileInfo]{s.asDir(q)}
			}
			if !strings.HasPrefix(real, "/") {
				real = strings.ReplaceAll(real, `\`, "/")
			}
			then := next(path.Clean(real))
			if then == nil {
				return q.info, nil
			}
			return nil, unfinished[fs.FileInfo]{then}
		})
	real.refused = settled[fs.FileInfo]{q.info}
	real.instead = func(error) *operation[fs.FileInfo] { return s.asDir(q) }
	return &real
}

// onlyPath returns the path in a NAME with one, or "".
func (s *session) onlyPath(call *conn.Call) (name string, err error) {
	var reply wire.Names
	if err := reply.Parse(call.Body); err != nil || len(reply.Names) != 1 {
		return "", parse(err)
	}
	if name, err = s.decodePath(reply.Names[0].Filename); err != nil {
		name = notConverted + reply.Names[0].Filename // no path that we have asked about
	}
	return name, nil
}

// asDir tries to open a directory.
func (s *session) asDir(q question) *operation[fs.FileInfo] {
	dir := opendir(s, q.name, q.is(s, typeDir))
	dir.name, dir.refused = q.op, settled[fs.FileInfo]{q.info}
	dir.instead = func(refusal error) *operation[fs.FileInfo] {
		if errors.Is(refusal, fs.ErrNotExist) || errors.Is(refusal, FxCode(wire.NotADirectory)) ||
			readsOnce(s.options.serverVersion) {
			q.stat().Mode |= typeFile
			return nil
		}
		return s.asFile(q)
	}
	return &dir
}

// asFile tries to read a file: a directory may have been refused for want of handles or of
// permissions, and some servers open one like a file.
func (s *session) asFile(q question) *operation[fs.FileInfo] {
	is, known := q.is(s, typeFile), settled[fs.FileInfo]{q.info}
	file := ask(s, q.op, q.name, wire.TypeHandle, wire.Open{Path: q.name, Flags: wire.OpenRead},
		func(call *conn.Call) (fs.FileInfo, error) {
			handle := call.Handle
			read := operation[fs.FileInfo]{session: s, name: q.op, path: q.name, refused: known,
				call: s.readCall(handle, 0, 1), result: is}
			read.instead = func(refusal error) *operation[fs.FileInfo] {
				if errors.Is(refusal, ErrSSHFxEOF) {
					q.stat().Mode |= typeFile
				}
				s.closeHandle(handle)
				return nil
			}
			return nil, unfinished[fs.FileInfo]{&read}
		})
	file.refused = known
	file.call.Orphan = s.orphaned(wire.OpenRead)
	return &file
}

var (
	unixLine = regexp.MustCompile(`^([-dlbcps])[-rwxsStTlL]{9}[ .+@]`)
	dosLine  = regexp.MustCompile(
		`^\d+[-/.]\d+[-/.]\d+ +\d+:\d+(?::\d+)? *(?:[AaPp][Mm]?)? +(<DIR>|[\d,.]+) `)
)

// typeOfLine returns the type in a line that comes with a listed name, like one of ls -l or of DOS,
// or 0.
func typeOfLine(line, name []byte) uint32 {
	if !bytes.Contains(line[min(len(line), 10):], name) {
		return 0 // it is not about the file, or nothing but its name
	}
	switch unix := unixLine.FindSubmatch(line); {
	case unix == nil:
	case unix[1][0] == 'd':
		return typeDir
	case unix[1][0] == 'l':
		return typeLink
	case unix[1][0] == '-':
		return typeFile
	}
	switch dos := dosLine.FindSubmatch(line); {
	case dos == nil:
		return 0
	case bytes.Equal(dos[1], []byte("<DIR>")):
		return typeDir
	}
	return typeFile
}
