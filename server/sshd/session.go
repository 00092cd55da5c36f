package sshd

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	transport "github.com/usftp/usftp/internal/ssh"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/scp"
)

// login is one authenticated connection.
type login struct {
	server   *Server
	conn     *connection
	access   *Access
	sessions Sessions // the user's
	files    *server.OpenFiles
	patience time.Duration // maximum time that a session may have no program
	fs       server.FS
	policy   server.Policy
	client   string // the client's version line
	server.Reporter
}

// session serves one channel, which runs one program: the first request for one decides which.
// connected ends with the connection.
func (l *login) session(connected context.Context, offered *transport.NewChannel) {
	accepted, err := offered.Accept()
	if err != nil {
		return
	}
	defer accepted.Close()
	late := time.AfterFunc(l.patience, func() { accepted.Close() })
	defer late.Stop()
	for {
		request, err := accepted.NextRequest()
		if err != nil {
			return
		}
		run := l.program(request)
		request.Reply(run != nil)
		if run == nil {
			continue
		}
		if !late.Stop() {
			return
		}
		accepted.RefuseRequests()
		channel := ssh.Channel(accepted)
		if l.access.Bandwidth != nil {
			channel = &throttled{channel, connected, l.access.Bandwidth, &l.conn.activity}
		}
		run(connected, channel)
		return
	}
}

// program serves a channel.
type program func(connected context.Context, channel ssh.Channel)

// program returns the program that a request asks for, or nil if that is not served, such as
// terminals. A shell or any other command gets a message and an exit status.
func (l *login) program(request *transport.Request) program {
	switch request.Type {
	case "subsystem": // RFC 4254, section 6.5
		if name, err := request.String(); err == nil && name == "sftp" {
			return l.sftp
		}
	case "shell":
		l.Report(server.Event{Kind: server.CommandRefused, Command: "a shell"})
		return filesOnly
	case "exec":
		text, err := request.String()
		if err != nil {
			return nil
		}
		command, err := scp.Parse(text)
		switch {
		case errors.Is(err, scp.ErrNotSCP):
			l.Report(server.Event{Kind: server.CommandRefused, Command: text})
			return filesOnly
		case err != nil:
			return func(_ context.Context, channel ssh.Channel) { l.complain(channel, err) }
		default:
			return func(connected context.Context, channel ssh.Channel) {
				l.scp(connected, channel, command)
			}
		}
	}
	return nil
}

// sftp serves SFTP to the end of the channel, which follows all data that had arrived when the
// connection ended: so hanging up within a packet is told from a normal end. That takes no time;
// work for a client that is gone is given up.
func (l *login) sftp(connected context.Context, channel ssh.Channel) {
	ctx, cancel := context.WithCancel(l.server.ctx)
	defer cancel()
	defer context.AfterFunc(connected, func() { time.AfterFunc(time.Second, cancel) })()
	err := server.Serve(ctx, &exiting{Channel: channel}, l.fs, &server.Options{
		Policy:    l.policy,
		OpenFiles: l.files,
		Pool:      &l.server.buffers,
		Work:      &l.server.work,
		Events:    l.Events,
		Gate:      l.Gate,
		Hashes:    l.Hashes,
		Logger:    l.Logger,
		Activity:  &l.conn.activity,

		DraftSymlinks: draftSymlinks(l.client),
	})
	// A client that is told to go may hang up first, and the server may close meanwhile.
	if l.conn.ended.Load() || err != nil && l.server.ctx.Err() == nil && !hungUp(err) {
		l.Report(server.Event{Kind: server.SessionFailed, Err: l.causeOf(err)})
	}
}

// hungUp reports whether a client ended its connection when it had nothing more to ask, without
// closing its channel first. Many clients do, and sshd treats it as a normal end. Hanging up within
// a packet is a different error.
func hungUp(err error) bool {
	var said *transport.DisconnectError
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || // of a reply
		errors.Is(err, context.Canceled) ||
		errors.As(err, &said) && said.Reason == transport.ReasonByApplication
}

func (l *login) scp(connected context.Context, channel ssh.Channel, command *scp.Command) {
	view, err := server.NewView(l.fs, &l.policy)
	if err != nil {
		l.complain(channel, err)
		return
	}
	status := uint32(0)
	view = view.Limited(l.files)
	ctx := view.WithWork(connected, &l.server.work)
	reports := &server.Reporter{Events: l.Events, Gate: l.Gate, Hashes: l.Hashes,
		Logger: l.Logger, Protocol: "scp"}
	busy := &l.conn.activity
	busy.Begin()
	err = scp.Serve(ctx, &working{channel, busy}, view, command, reports)
	busy.End()
	if err != nil {
		if status = 1; !errors.Is(err, scp.ErrFailed) &&
			(connected.Err() == nil || l.conn.ended.Load()) {
			l.Report(server.Event{Kind: server.SessionFailed, Err: l.causeOf(err)})
		}
	}
	exit(channel, status)
}

// working is the stream of a program that is busy unless it waits for the client.
type working struct {
	io.ReadWriter
	busy *server.Activity
}

func (w *working) Read(p []byte) (int, error) {
	w.busy.End()
	defer w.busy.Begin()
	return w.ReadWriter.Read(p)
}

func (w *working) Write(p []byte) (int, error) {
	w.busy.End()
	defer w.busy.Begin()
	return w.ReadWriter.Write(p)
}

// filesOnly ends a shell or a command with a message for the user.
func filesOnly(_ context.Context, channel ssh.Channel) {
	io.WriteString(channel.Stderr(),
		"This server only serves files, over SFTP and SCP: it has no shell and runs no commands.\r\n")
	exit(channel, 1)
}

// complain tells a client the error in its command.
func (l *login) complain(channel ssh.Channel, err error) {
	l.Report(server.Event{Kind: server.CommandRefused, Err: err})
	io.WriteString(channel.Stderr(), err.Error()+"\n")
	exit(channel, 1)
}

// exit sends a program's exit status (RFC 4254, section 6.10), which OpenSSH's client passes on to
// its caller. It goes before the end of the data: many clients close the channel at that, and
// nothing can follow.
func exit(channel ssh.Channel, status uint32) {
	channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{status}))
	channel.CloseWrite()
}

// exiting is a channel that sends exit status 0 before it closes.
type exiting struct {
	ssh.Channel
	writing sync.Mutex
	once    sync.Once
}

func (e *exiting) Write(p []byte) (int, error) {
	e.writing.Lock()
	defer e.writing.Unlock()
	return e.Channel.Write(p)
}

// Close sends no exit status while a Write is in progress: the session was then cut off, and a
// channel cannot send both at once.
func (e *exiting) Close() error {
	e.once.Do(func() {
		if e.writing.TryLock() {
			defer e.writing.Unlock()
			exit(e.Channel, 0)
		}
	})
	return e.Channel.Close()
}
