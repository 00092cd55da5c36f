package usftp

import (
	"strings"

	"github.com/usftp/usftp/wire"
)

// beneath returns the packet that the view sends for a message: in a view beneath a directory, a
// request on paths there is wrapped, so that the server follows no link beneath the directory
// (docs/beneath.md).
func (s *session) beneath(message appender, packet []byte) []byte {
	paths := pathsOf(message)
	for _, name := range paths {
		if !s.isBeneath(name) {
			return packet
		}
	}
	if len(paths) == 0 {
		return packet
	}
	above, err := s.encodePath(*s.above)
	if err != nil { // impossible: the paths begin with it
		return packet
	}
	const header = wire.LengthSize + 1 + 4
	return wire.Beneath{Top: uint32(len(above)), Request: wire.Type(packet[wire.LengthSize]),
		Body: packet[header:]}.Append(nil, 0)
}

// beside returns a view that follows no link from name's directory on, if the server can do that. A
// name that leads through a link by itself counts as the directory.
func (c *Client) beside(name string) *Client {
	if c.isBeneath(name) {
		return c
	}
	above := name[:strings.LastIndexByte(name, '/')+1]
	if last := name[len(above):]; last == "" || last == "." || last == ".." {
		above = listPrefix(name)
	}
	view, _ := privateClient{c}.Beneath(above)
	return view
}

// isBeneath reports whether a path leads through the view's directory, by names alone.
func (s *session) isBeneath(name string) bool {
	if s.above == nil {
		return false
	}
	rest, ok := strings.CutPrefix(name, *s.above)
	for element := range strings.SplitSeq(rest, "/") {
		ok = ok && element != "" && element != "." && element != ".."
	}
	return ok
}

// pathsOf returns the paths that a request acts on, for requests that can be wrapped.
func pathsOf(message appender) []string {
	switch m := message.(type) {
	case wire.Open:
		return []string{m.Path}
	case wire.PathAttrs: // MKDIR and SETSTAT
		return []string{m.Path}
	case wire.Lsetstat:
		return []string{m.Path}
	case wire.PathRequest:
		if m.Type != wire.TypeRealpath {
			return []string{m.Path}
		}
	case wire.Rename:
		return []string{m.OldPath, m.NewPath}
	case wire.PosixRename:
		return []string{m.OldPath, m.NewPath}
	case wire.Hardlink:
		return []string{m.OldPath, m.NewPath}
	case wire.Symlink: // in this extension the target always comes first
		return []string{m.Second}
	}
	return nil
}
