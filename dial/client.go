package dial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/usftp/usftp"
)

// Client logs in to a host as ssh does, with the user's ssh_config, known_hosts, agent and keys,
// and starts SFTP. host is "user@host" or "sftp://user@host:port", as in [ParseHost], without a
// path. Closing the client ends the connection. Nobody is asked for anything; [Config.Client] is
// for programs that can ask. Errors are of type [*Error].
//
// Package pool has logins that are made again when a connection is lost, and more than one
// connection to a host.
func Client(ctx context.Context, host string,
	options ...usftp.ClientOption) (*usftp.Client, error) {
	return new(Config).Client(ctx, host, options...)
}

// Client logs in like the function [Client], with a configuration.
func (c *Config) Client(ctx context.Context, host string,
	options ...usftp.ClientOption) (*usftp.Client, error) {
	t, err := ParseHost(host)
	if err == nil && t.Path != "" {
		err = fmt.Errorf("%q has a path; a client is for a host", host)
	}
	if err != nil {
		return nil, &Error{Host: host, Err: err}
	}
	d, err := New(ctx, t, c)
	if err != nil {
		return nil, err
	}
	conn, err := d.Dial(ctx)
	if err != nil {
		return nil, err
	}
	client, err := conn.client(ctx, func(s *Stream) io.ReadWriteCloser { return onlyStream{s} },
		options)
	if err != nil {
		conn.Close()
		if _, named := errors.AsType[*Error](err); !named {
			err = &Error{Host: d.host(), Err: err}
		}
		return nil, err
	}
	return client, nil
}

// An onlyStream is the only stream of its connection, which it closes.
type onlyStream struct{ *Stream }

func (s onlyStream) Close() error {
	err := s.Stream.Close()
	s.conn.Close()
	return err
}

func (s onlyStream) Abandon() error {
	err := s.Stream.Abandon()
	s.conn.Close()
	return err
}

// Client opens a stream and starts SFTP on it. The connection tells the client the server's
// version, the channel's window, and how to send a keepalive. If ctx ends before SFTP has started,
// or the server falls silent for as long as ConnectTimeout allows, the whole connection is closed,
// since closing just the stream would wait for a silent server.
func (c *Conn) Client(ctx context.Context, options ...usftp.ClientOption) (*usftp.Client, error) {
	return c.client(ctx, func(s *Stream) io.ReadWriteCloser { return s }, options)
}

func (c *Conn) client(ctx context.Context, wrap func(*Stream) io.ReadWriteCloser,
	options []usftp.ClientOption) (*usftp.Client, error) {
	stream, err := c.Open(ctx)
	if err != nil {
		return nil, err
	}
	ctx, stop := c.LimitSilence(ctx)
	defer stop()
	client, err := stream.client(ctx, wrap(stream), c, append([]usftp.ClientOption{
		usftp.WithServerVersion(c.ServerVersion())}, options...))
	if err == nil {
		return client, nil
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if named, ok := errors.AsType[*Error](err); ok { // the stream knows best why it ended
		return nil, named
	}
	return nil, &startFailure{err: err, stderr: strings.ReplaceAll(stream.Stderr(), "\n", "; ")}
}

// Client starts SFTP on a stream, such as the stream of a command that speaks it. If ctx ends first
// the stream is closed.
func (s *Stream) Client(ctx context.Context, options ...usftp.ClientOption) (*usftp.Client, error) {
	return s.client(ctx, s, s, options)
}

// client starts SFTP over a stream or its wrapper. If ctx ends first it closes onEnd.
func (s *Stream) client(ctx context.Context, over io.ReadWriteCloser, onEnd io.Closer,
	options []usftp.ClientOption) (*usftp.Client, error) {
	stop := context.AfterFunc(ctx, func() { onEnd.Close() })
	client, err := usftp.NewClientPipe(over, over, append([]usftp.ClientOption{
		usftp.WithChannelWindow(s.Window()),
		usftp.WithKeepalive(s.conn.Keepalive)}, options...)...)
	if !stop() && err == nil {
		client.Close()
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	return client, nil
}

// A startFailure reports that SFTP did not start on a stream. Servers often give the reason on
// standard error.
type startFailure struct {
	err    error
	stderr string
}

func (e *startFailure) Error() string {
	switch {
	case e.stderr == "":
		return e.err.Error()
	case errors.As(e.err, new(*usftp.LostError)), e.silent():
		return "SFTP did not start: " + e.stderr
	}
	return fmt.Sprintf("%s (and: %s)", e.err, e.stderr)
}

// silent reports whether the server sent nothing but SFTP: a start-up file that prints something
// spoils every other program run there, too.
func (e *startFailure) silent() bool {
	other, isOther := errors.AsType[*usftp.NotSFTPError](e.err)
	return isOther && len(other.Text) == 0
}

// Is makes e match ErrNoSFTP. Without a word from the server, a stream that ends may be a lost
// connection.
func (e *startFailure) Is(target error) bool {
	return target == ErrNoSFTP &&
		(e.silent() || e.stderr != "" && errors.As(e.err, new(*usftp.LostError)))
}

func (e *startFailure) Unwrap() error { return e.err }
