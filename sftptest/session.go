package sftptest

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"slices"
	"time"

	"github.com/usftp/usftp/wire"
)

// session is one stream being served. Only its own goroutine touches it, except for its outbox.
type session struct {
	server *Scripted
	script *Script
	files  *Files
	stream io.ReadWriteCloser
	number int
	out    *outbox
	rng    *rand.Rand

	inited      bool
	silent      bool // no request is answered any more
	silentAfter bool // from the next request on
	handles     map[string]*handle
	opened      int // handles
	lastHandle  uint32
}

func newSession(server *Scripted, stream io.ReadWriteCloser, number int) *session {
	script := &server.script
	return &session{server: server, script: script, files: server.Files, stream: stream,
		number: number,
		out: newOutbox(stream, script.Reorder,
			rand.New(rand.NewPCG(script.Seed, uint64(2*number)))),
		rng:     rand.New(rand.NewPCG(script.Seed, uint64(2*number+1))),
		handles: make(map[string]*handle)}
}

func (s *session) run() error {
	defer s.server.ended(s)
	written := make(chan struct{})
	go func() {
		defer close(written)
		s.out.run()
	}()
	err := s.conversation()
	s.out.end()
	s.stream.Close()
	<-written
	for _, end := range []error{io.EOF, io.ErrClosedPipe, net.ErrClosed, fs.ErrClosed} {
		if errors.Is(err, end) {
			return nil
		}
	}
	return err
}

func (s *session) conversation() error {
	if s.script.Greeting != "" || s.script.GreetingOnly {
		s.out.send([][]byte{[]byte(s.script.Greeting)}, s.script.GreetingOnly)
	}
	in := bufio.NewReaderSize(s.stream, 64<<10)
	var packet []byte
	for {
		var err error
		if packet, err = s.readPacket(in, packet); err != nil {
			return err
		}
		if s.script.Work > 0 {
			time.Sleep(s.script.Work)
		}
		if err := s.serve(packet); err != nil {
			return err
		}
		s.out.waitForRoom()
	}
}

// maxPacket limits packets if the script does not.
const maxPacket = 64 << 20

func (s *session) readPacket(in *bufio.Reader, packet []byte) ([]byte, error) {
	var length [wire.LengthSize]byte
	if _, err := io.ReadFull(in, length[:]); err != nil {
		return nil, err
	}
	n := uint64(binary.BigEndian.Uint32(length[:]))
	most := cmp.Or(s.script.limits().MaxPacket, maxPacket)
	if n == 0 || n > most {
		return nil, fmt.Errorf("sftptest: packet of %d bytes, the limit is %d", n, most)
	}
	packet = slices.Grow(packet[:0], int(n))[:n]
	_, err := io.ReadFull(in, packet)
	return packet, err
}

// serve executes one packet.
func (s *session) serve(packet []byte) error {
	c, err := parse(packet, s.script.DraftSymlink)
	if err != nil {
		return fmt.Errorf("sftptest: bad request: %w", err)
	}
	if !s.inited && c.Type != wire.TypeInit {
		return fmt.Errorf("sftptest: %v before INIT", c.Type)
	}
	s.inited = true
	c.Stream, c.At = s.number, time.Now()
	if h := s.handles[c.Handle]; h != nil && c.Handle != "" {
		c.Path = h.path
	}
	if h := s.handles[c.handle2]; h != nil {
		c.Path2 = h.path
	}
	actions := s.server.note(c.Request)
	if s.silentAfter {
		s.silent = true
	}
	for _, a := range actions {
		if a.before != nil {
			a.before(s, c)
		}
	}
	if !c.refused {
		s.carryOut(c)
	}
	for _, a := range actions {
		if a.after != nil {
			a.after(s, c)
		}
	}
	s.dispatch(c)
	return nil
}

// dispatch sends the reply, possibly much later.
func (s *session) dispatch(c *call) {
	if s.silent || len(c.reply) == 0 && !c.hangup {
		return
	}
	send := func() { s.out.send(c.reply, c.hangup) }
	if gate := c.gate; gate != nil {
		direct := send
		send = func() { gate.arrive(direct) }
	}
	if c.delay > 0 {
		time.AfterFunc(c.delay, send)
		return
	}
	send()
}

func (c *call) answer(packet []byte) { c.reply = [][]byte{packet} }

// status answers with a code.
func (s *session) status(c *call, code wire.Code) {
	code = s.script.portable(code)
	s.statusMessage(c, code, code.String())
}

func (s *session) statusMessage(c *call, code wire.Code, message string) {
	if s.script.NoMessages {
		message = ""
	}
	packet := wire.Status{Code: code, Message: message}.Append(nil, c.ID)
	if s.script.BareStatus {
		packet = packet[:wire.HeaderSize+4]
		binary.BigEndian.PutUint32(packet, uint32(len(packet)-wire.LengthSize))
	}
	c.answer(packet)
}

func (s *session) carryOut(c *call) {
	if c.Type != wire.TypeInit && slices.Contains(s.script.Refuse, c.Type) {
		s.status(c, wire.OpUnsupported)
		return
	}
	switch c.Type {
	case wire.TypeInit:
		version := cmp.Or(s.script.Version, wire.Version)
		c.answer(wire.InitReply{Version: version, Extensions: s.script.extensions()}.Append(nil))
	case wire.TypeExtended:
		s.extended(c)
	case wire.TypeClose, wire.TypeRead, wire.TypeWrite, wire.TypeFstat, wire.TypeFsetstat,
		wire.TypeReaddir:
		s.onHandle(c)
	default:
		s.onPath(c)
	}
}
