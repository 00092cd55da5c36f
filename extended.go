package usftp

import (
	"bytes"
	"cmp"
	"context"
	"maps"

	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/wire"
)

// Extended sends an extended request (draft-02, section 8) and returns the payload of the
// EXTENDED_REPLY, or nil if the server answers with a STATUS of OK. It does not check whether the
// server offers the extension; if the server does not know it the error matches
// [errors.ErrUnsupported]. It takes one round trip.
func (c *Client) Extended(name string, payload []byte) ([]byte, error) {
	return run(c.ctx, c.extended(wire.TypeExtendedReply, name, payload))
}

// Extensions returns the names of the extensions that the server offers, with their versions or
// other data. The map is the caller's.
func (c *Client) Extensions() map[string]string { return maps.Clone(c.offers) }

// HasExtension reports whether the server offers an extension, and returns its version or other
// data.
func (c *Client) HasExtension(name string) (data string, offered bool) {
	data, offered = c.offers[name]
	return data, offered
}

func (s *session) extended(expect wire.Type, name string, payload []byte) operation[[]byte] {
	op := ask(s, name, "", expect, wire.Extended{Name: name, Payload: payload},
		func(call *conn.Call) ([]byte, error) {
			if call.Type == wire.TypeStatus {
				return nil, nil
			}
			return bytes.Clone(call.Body), nil
		})
	op.orSuccess = true
	return op
}

// Raw sends single requests and returns the server's answers unchanged. Results are [Pending], so
// any number of requests may be in flight. The end of a file or directory is io.EOF. The caller
// must close the handles that it opens.
//
// Requests count against the client's budget, and replies are matched and checked like all others,
// but nothing is retried, split or put in order. [Client.Limits] and [Client.Extensions] return the
// results of the negotiation.
type Raw struct {
	session *session
	ctx     context.Context
}

// Raw returns the raw form of the client. Its requests end when the context of c is done.
func (c *Client) Raw() Raw { return Raw{c.session, c.ctx} }

// Open sends OPEN (draft-02, section 6.3) with flags such as [wire.OpenRead].
func (r Raw) Open(name string, flags uint32, attrs wire.Attrs) *Pending[[]byte] {
	op := ask(r.session, "open", name, wire.TypeHandle,
		wire.Open{Path: name, Flags: flags, Attrs: attrs}, handleName)
	op.call.Orphan = r.session.orphaned(0)
	return start(r.ctx, op)
}

// Opendir sends OPENDIR (draft-02, section 6.7).
func (r Raw) Opendir(name string) *Pending[[]byte] {
	return start(r.ctx, opendir(r.session, name, handleName))
}

// Readdir sends READDIR (draft-02, section 6.7). The names are not checked as they are by
// [Client.ReadDir].
func (r Raw) Readdir(handle []byte) *Pending[[]wire.Name] {
	message := wire.HandleRequest{Type: wire.TypeReaddir, Handle: handle}
	op := ask(r.session, "readdir", "", wire.TypeName, message,
		func(call *conn.Call) ([]wire.Name, error) {
			var reply wire.Names
			err := reply.Parse(call.Body)
			return reply.Names, parse(err)
		})
	op.orEOF = true
	return start(r.ctx, op.on(r.handle(handle)))
}

// Close sends CLOSE (draft-02, section 6.3), after all WRITEs that were started before it.
func (r Raw) Close(handle []byte) *Pending[struct{}] {
	op := r.session.command("close", "", wire.HandleRequest{Type: wire.TypeClose, Handle: handle})
	op.call.Ordered = true
	return start(r.ctx, op.on(r.handle(handle)))
}

// Read sends one READ for len(p) bytes (draft-02, section 6.4), which may return fewer. p must not
// be used until the operation is complete.
func (r Raw) Read(handle []byte, off uint64, p []byte) *Pending[int] {
	message := wire.Read{Handle: handle, Offset: off, Length: uint32(len(p))}
	op := ask(r.session, "read", "", wire.TypeData, message, func(call *conn.Call) (int, error) {
		return copy(p, call.Body), nil
	})
	op.call.Bytes = len(p)
	op.orEOF = true
	return start(r.ctx, op.on(r.handle(handle)))
}

// Write sends one WRITE (draft-02, section 6.4). It copies p before it returns.
func (r Raw) Write(handle []byte, off uint64, p []byte) *Pending[struct{}] {
	call := r.session.writeCall(r.handle(handle), int64(off), p)
	op := operation[none]{session: r.session, name: "write", call: call}
	if op.err = r.session.refusesLength("", call.Request); op.err != nil {
		call.Payload.Release()
	}
	return start(r.ctx, op)
}

// Fstat sends FSTAT (draft-02, section 6.8).
func (r Raw) Fstat(handle []byte) *Pending[*FileStat] {
	message := wire.HandleRequest{Type: wire.TypeFstat, Handle: handle}
	return start(r.ctx, ask(r.session, "stat", "", wire.TypeAttrs, message,
		attrsReply).on(r.handle(handle)))
}

// Fsetstat sends FSETSTAT (draft-02, section 6.9).
func (r Raw) Fsetstat(handle []byte, attrs wire.Attrs) *Pending[struct{}] {
	return start(r.ctx, r.session.command("setstat", "",
		wire.Fsetstat{Handle: handle, Attrs: attrs}).on(r.handle(handle)))
}

// Extended is [Client.Extended] for extensions answered by a packet of another type, such as
// wire.TypeName. It returns the packet's body, which the types of package wire parse. An answer of
// yet another type breaks the protocol and ends the connection.
func (r Raw) Extended(name string, payload []byte, expect wire.Type) *Pending[[]byte] {
	return start(r.ctx, r.session.extended(expect, name, payload))
}

// handle returns the open handle of a name. A name that the caller has made up is sent unchanged.
func (r Raw) handle(name []byte) *conn.Handle {
	return cmp.Or(r.session.conn.Handle(name), &conn.Handle{Name: name})
}

func handleName(call *conn.Call) ([]byte, error) { return bytes.Clone(call.Handle.Name), nil }
