package sftptest

import (
	"fmt"
	"strings"
	"time"

	"github.com/usftp/usftp/wire"
)

// Request is a request that a scripted server has received.
type Request struct {
	Stream int       // the stream it came on: 1 for the first that was served
	At     time.Time // when it had been received completely

	Type      wire.Type
	ID        uint32
	Extension string // the name, if Type is wire.TypeExtended

	Handle string // as received
	// as received; of a handle, the path by which it was opened; of SYMLINK, the new link
	Path string
	// of renames and hardlink, the new name; of SYMLINK, the target; of copy-data, the path by which
	// the second handle was opened
	Path2 string

	Offset uint64
	Length uint64 // READ, copy-data: as requested; WRITE: of the data
	Flags  uint32 // of OPEN
	Attrs  wire.Attrs
}

// String describes the request in one line.
func (r Request) String() string {
	var b strings.Builder
	b.WriteString(r.Type.String())
	if r.Extension != "" {
		b.WriteString(" " + r.Extension)
	}
	fmt.Fprintf(&b, " id=%d", r.ID)
	if r.Handle != "" {
		fmt.Fprintf(&b, " handle=%x", r.Handle)
	}
	if r.Path != "" {
		fmt.Fprintf(&b, " %q", r.Path)
	}
	if r.Path2 != "" {
		fmt.Fprintf(&b, " %q", r.Path2)
	}
	if r.Type == wire.TypeRead || r.Type == wire.TypeWrite || r.Extension == wire.ExtCopyData {
		fmt.Fprintf(&b, " %d+%d", r.Offset, r.Length)
	}
	if r.Type == wire.TypeOpen {
		fmt.Fprintf(&b, " flags=%#x", r.Flags)
	}
	return b.String()
}

// call is a request being executed.
type call struct {
	Request
	data    []byte // of WRITE
	handle2 string // of copy-data
	payload []byte // of an extended request

	refused bool     // it must not be executed
	reply   [][]byte // the packets that answer it
	delay   time.Duration
	gate    *Gate
	hangup  bool // the stream closes after the reply
}

// parse reads a packet into a call. Paths that only the session knows are filled in later.
func parse(packet []byte, draftSymlink bool) (*call, error) {
	t, id, body, err := wire.ParseHeader(packet)
	if err != nil {
		return nil, err
	}
	c := &call{Request: Request{Type: t, ID: id}}
	switch t {
	case wire.TypeInit:
		var m wire.Init
		err = m.Parse(body)
	case wire.TypeOpen:
		var m wire.Open
		err = m.Parse(body)
		c.Path, c.Flags, c.Attrs = m.Path, m.Flags, m.Attrs
	case wire.TypeClose, wire.TypeFstat, wire.TypeReaddir:
		var m wire.HandleRequest
		err = m.Parse(body)
		c.Handle = string(m.Handle)
	case wire.TypeRead:
		var m wire.Read
		err = m.Parse(body)
		c.Handle, c.Offset, c.Length = string(m.Handle), m.Offset, uint64(m.Length)
	case wire.TypeWrite:
		var m wire.Write
		err = m.Parse(body)
		c.Handle, c.Offset, c.Length, c.data = string(m.Handle), m.Offset, uint64(len(m.Data)),
			m.Data
	case wire.TypeLstat, wire.TypeStat, wire.TypeOpendir, wire.TypeRemove, wire.TypeRmdir,
		wire.TypeRealpath, wire.TypeReadlink:
		var m wire.PathRequest
		err = m.Parse(body)
		c.Path = m.Path
	case wire.TypeSetstat, wire.TypeMkdir:
		var m wire.PathAttrs
		err = m.Parse(body)
		c.Path, c.Attrs = m.Path, m.Attrs
	case wire.TypeFsetstat:
		var m wire.Fsetstat
		err = m.Parse(body)
		c.Handle, c.Attrs = string(m.Handle), m.Attrs
	case wire.TypeRename:
		var m wire.Rename
		err = m.Parse(body)
		c.Path, c.Path2 = m.OldPath, m.NewPath
	case wire.TypeSymlink:
		var m wire.Symlink
		err = m.Parse(body)
		c.Path, c.Path2 = m.Second, m.First
		if draftSymlink {
			c.Path, c.Path2 = m.First, m.Second
		}
	case wire.TypeExtended:
		var m wire.Extended
		err = m.Parse(body)
		c.Extension, c.payload = m.Name, m.Payload
		if err == nil {
			err = c.parseExtended()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%v id=%d: %w", t, id, err)
	}
	return c, nil
}

func (c *call) parseExtended() (err error) {
	switch c.Extension {
	case wire.ExtPosixRename, wire.ExtHardlink:
		var m wire.PosixRename // both are two paths
		err = m.Parse(c.payload)
		c.Path, c.Path2 = m.OldPath, m.NewPath
	case wire.ExtStatVFS, wire.ExtExpandPath, wire.ExtHomeDirectory, wire.ExtUploads:
		var m wire.ExtendedPath
		err = m.Parse(c.payload)
		c.Path = m.Path
	case wire.ExtFstatVFS, wire.ExtFsync, wire.ExtAbandon:
		var m wire.ExtendedHandle
		err = m.Parse(c.payload)
		c.Handle = string(m.Handle)
	case wire.ExtLsetstat:
		var m wire.Lsetstat
		err = m.Parse(c.payload)
		c.Path, c.Attrs = m.Path, m.Attrs
	case wire.ExtCopyData:
		var m wire.CopyData
		err = m.Parse(c.payload)
		c.Handle, c.Offset, c.Length, c.handle2 = string(m.FromHandle), m.FromOffset, m.Length,
			string(m.ToHandle)
	case wire.ExtCheckFileHandle, wire.ExtCheckFile, wire.ExtCheckFileName:
		var m wire.CheckFile
		err = m.Parse(c.payload)
		c.Offset, c.Length = m.Offset, m.Length
		if c.Extension == wire.ExtCheckFileName {
			c.Path = string(m.Target)
		} else {
			c.Handle = string(m.Target)
		}
	}
	return err
}
