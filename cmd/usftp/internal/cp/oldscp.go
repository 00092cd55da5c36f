package cp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/cmd/usftp/internal/connect"
	"github.com/usftp/usftp/cmd/usftp/internal/pattern"
	"github.com/usftp/usftp/cmd/usftp/internal/report"
	"github.com/usftp/usftp/dial"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/scp"
	"github.com/usftp/usftp/internal/scpclient"
	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/transfer"
)

// oldFlags are the flags besides those of connections that have a meaning with -O; the old protocol
// has nothing for others.
var oldFlags = []string{"scp", "preserve", "recursive", "no-times", "no-perms", "links",
	"max-depth", "max-entries", "stop-on-error", "quiet", "verbose", "no-progress", "json",
	"archive", "force",
	"progress", "through", "forward-agent", "tune", "connections", "streams", "buffer", "limit"}

// checkOld refuses flags and operands that the old protocol does not support.
func (c *flags) checkOld(f *pflag.FlagSet, sources []connect.Place, target connect.Place) error {
	var refused error
	f.Visit(func(flag *pflag.Flag) {
		if !slices.Contains(oldFlags, flag.Name) &&
			(!c.Connect.Making(flag.Name) || flag.Name == "iconv") { // names are sent as they are
			refused = fmt.Errorf(
				"--%s cannot be used with -O: scp's old protocol has nothing for it", flag.Name)
		}
	})
	switch {
	case refused != nil:
		return refused
	case f.Changed("server") || f.Changed("sftp-server"):
		return errors.New("-O uses no SFTP server: leave out --server and --sftp-server")
	}
	for _, p := range append(slices.Clone(sources), target) {
		if p.Stream {
			return errors.New("-O cannot copy from or to -: scp's old protocol needs files")
		}
	}
	for _, s := range sources {
		if s.Remote == target.Remote {
			return errors.New(
				"-O copies between this machine and a host: either SRC or DST must be HOST:PATH")
		}
	}
	return nil
}

// An oldCopy is a copy over scp's old protocol.
type oldCopy struct {
	*connect.Task
	flags   *flags
	options scpclient.Options
	hosts   map[dial.Target]*oldHost
	placed  map[string]string // sources of downloaded files, by name
}

// An oldHost is a host that we have tried to log in to.
type oldHost struct {
	conn *dial.Conn
	err  error // why it cannot be reached
}

// runOld copies with scp's old protocol.
func runOld(ctx context.Context, a *ui.App, flags *flags, sources []connect.Place,
	target connect.Place) error {
	config := flags.Config(a, &flags.Report)
	tree := flags.TreeOptions()
	c := &oldCopy{flags: flags, hosts: make(map[dial.Target]*oldHost),
		placed: make(map[string]string),
		Task: connect.NewTask(ctx, a, config, report.New(a, &flags.Report,
			report.Look{Recursive: flags.recursive})),
		options: scpclient.Options{Recursive: flags.recursive,
			Times: flags.preserve && !flags.NoTimes, Modes: flags.preserve && !flags.NoPerms,
			MaxDepth: max(0, tree.MaxDepth), MaxEntries: max(0, tree.MaxEntries),
			SkipLinks: tree.Links == transfer.LinksSkip}}
	c.Remember("cp", sources, target, "")
	defer func() {
		for _, host := range c.hosts {
			host.close()
		}
	}()
	if target.Remote {
		c.upload(sources, target)
		return c.End()
	}
	for _, s := range sources {
		if ctx.Err() == nil && !(flags.StopOnError && c.Code != ui.ExitOK) {
			c.download(s, target, len(sources) > 1)
		}
	}
	return c.End()
}

// upload copies local files. One scp on the host takes all of them.
func (c *oldCopy) upload(sources []connect.Place, target connect.Place) {
	command := c.command("-t")
	if len(sources) > 1 {
		command = c.command("-d", "-t")
	}
	name, err := shellWord(target.Path(), false)
	if err != nil {
		c.Fail(fmt.Errorf("cannot copy to %s: %w", target.Typed, err))
		return
	}
	var paths []string
	for _, s := range sources {
		paths = append(paths, s.Path())
	}
	into := len(sources) > 1 || strings.HasSuffix(target.Path(), "/") || target.Path() == "."
	first := transfer.Route{Source: paths[0], TargetHost: target.Target.UserHost(),
		Target: target.Path()}
	c.talk(target.Target, command+name, first, func(ctx context.Context, s io.ReadWriter,
		l *oldListener) error {
		return scpclient.Send(ctx, s, paths, target.Path(), into, c.options, l)
	})
}

// download copies the files that one operand names.
func (c *oldCopy) download(source, target connect.Place, several bool) {
	fail := func(err error) {
		c.Fail(fmt.Errorf("cannot copy %s to %s: %s", source.Typed, target.Typed,
			ui.ReasonOf(err)))
	}
	name, err := shellWord(source.Path(), true)
	if err != nil {
		fail(err)
		return
	}
	want, err := wanted(source.Path(), target.Typed, several)
	if err != nil {
		fail(err)
		return
	}
	defer want.Root.Close()
	want.Placed = c.placed
	c.talk(source.Target, c.command("-f")+name, transfer.Route{
		SourceHost: source.Target.UserHost(), Source: source.Path(), Target: target.Typed},
		func(ctx context.Context, s io.ReadWriter, l *oldListener) error {
			return scpclient.Receive(ctx, s, want, c.options, l)
		})
}

// command returns the command to run on the host, up to the path.
func (c *oldCopy) command(mode ...string) string {
	words := []string{"scp"}
	if c.flags.recursive {
		words = append(words, "-r")
	}
	if c.options.Times || c.options.Modes {
		words = append(words, "-p")
	}
	return strings.Join(append(words, mode...), " ") + " "
}

// shellWord returns a path as a word for the shell on the host, in which only a leading ~ and, if
// wanted, the characters of patterns keep their meaning. It quotes only characters that need it,
// because many devices have no shell.
func shellWord(name string, patterns bool) (string, error) {
	if strings.HasPrefix(name, "-") {
		name = "./" + name // otherwise scp takes it for a flag
	}
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		switch ch := name[i]; {
		case ch < ' ' || ch == 0x7f:
			return "", errors.New("scp's old protocol cannot carry control characters in a name")
		case ch == '\\' && patterns && i+1 < len(name) && name[i+1] >= ' ':
			b.WriteByte(ch)
			i++
			b.WriteByte(name[i])
		case 'a' <= ch && ch <= 'z', 'A' <= ch && ch <= 'Z', '0' <= ch && ch <= '9', ch >= 0x80,
			strings.IndexByte("/._-+:,=@%", ch) >= 0, ch == '~' && i == 0,
			patterns && strings.IndexByte("*?[]!^", ch) >= 0:
			b.WriteByte(ch)
		default:
			b.WriteByte('\\')
			b.WriteByte(ch)
		}
	}
	return b.String(), nil
}

// wanted returns the files that a host may send for a path as typed, and where they go. Unless the
// path is a pattern, the file gets the typed name, whatever the host calls it.
func wanted(typed, target string, several bool) (w scpclient.Want, err error) {
	w.Source, w.Several = typed, pattern.Has(unescaped(typed))
	trimmed := strings.TrimRight(typed, "/")
	base := path.Base(trimmed)
	w.Contents = trimmed == "" || base == "." || base == ".." ||
		strings.HasPrefix(trimmed, "~") && !strings.Contains(trimmed, "/")
	if w.Pattern = scp.PathPattern(base); !w.Several {
		w.Pattern = usftp.QuotePattern(scp.Unquote(base))
	}
	info, err := os.Stat(target)
	isDir := err == nil && info.IsDir()
	switch {
	case isDir:
		w.Dir = target
	case several || w.Several:
		if err == nil {
			err = errors.New("not a directory")
		}
		return w, missing(target, err)
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return w, err
	case w.Contents:
		if err = os.Mkdir(target, 0o777); err != nil {
			return w, missing(filepath.Dir(target), err)
		}
		w.Dir = target
	case strings.HasSuffix(target, "/"):
		return w, missing(target, err)
	default:
		// a link is followed if it was typed, as anywhere
		if target, err = localfs.FollowLinks(target); err != nil {
			return w, err
		}
		w.Dir, w.Name = filepath.Dir(target), filepath.Base(target)
	}
	w.Root, err = os.OpenRoot(w.Dir)
	return w, missing(w.Dir, err)
}

// unescaped returns a path without the characters that a backslash makes ordinary.
func unescaped(typed string) string {
	var b strings.Builder
	for i := 0; i < len(typed); i++ {
		if typed[i] == '\\' {
			i++
			continue
		}
		b.WriteByte(typed[i])
	}
	return b.String()
}

// talk runs a command on a host and has a conversation with it, and reports why it ended too early.
func (c *oldCopy) talk(host dial.Target, command string, route transfer.Route,
	converse func(ctx context.Context, s io.ReadWriter, l *oldListener) error) {
	host.Path = ""
	l := newOldListener(c, route)
	err := func() error {
		stream, conn, err := c.run(host, command)
		if err != nil {
			return err
		}
		defer stream.Close()
		ctx, stop := whileAlive(c.Ctx, conn, &l.alive)
		defer stop()
		ctx, halt := context.WithCancelCause(ctx)
		defer halt(nil)
		defer context.AfterFunc(ctx, func() { stream.Abandon() })()
		l.ctx, l.halt = ctx, halt
		err = converse(ctx, scpStream{stream, conn}, l)
		switch {
		case err == nil:
			return unsaid(stream)
		case errors.Is(err, scpclient.ErrFailed):
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, io.ErrUnexpectedEOF):
			return ended(stream, conn)
		}
		return err
	}()
	l.end(err)
}

func (h *oldHost) close() {
	if h != nil && h.conn != nil {
		h.conn.Close()
	}
}

// login logs in to a host to run a command there, which the login starts along with itself.
func (c *oldCopy) login(host dial.Target, command string) (*dial.Conn, error) {
	config := *c.Hosts.Config.Dial
	config.SFTPServer = command
	if config.SSH != "" { // we cannot ask for a sign of life over ssh's connection
		config.Options = append(slices.Clone(config.Options), fmt.Sprintf(
			"ServerAliveInterval=%.0f", aliveInterval.Seconds()))
	}
	dialer, err := dial.New(c.Ctx, host, &config)
	if err != nil {
		return nil, err
	}
	return dialer.Dial(c.Ctx)
}

// run starts a command on a host, over the existing connection, or a new one if it is lost. A host
// that cannot be reached is tried only once.
func (c *oldCopy) run(target dial.Target, command string) (*dial.Stream, *dial.Conn, error) {
	host := c.hosts[target]
	if host == nil || host.err == nil && host.conn.Err() != nil {
		host.close()
		host = new(oldHost)
		host.conn, host.err = c.login(target, command)
		c.hosts[target] = host
	}
	if host.err != nil {
		return nil, nil, host.err
	}
	conn := host.conn
	stream, err := conn.OpenCommand(c.Ctx, command)
	if refused, ok := errors.AsType[*dial.SubsystemError](err); ok {
		err = endpoint.Explain(fmt.Sprintf("%s: the host does not run scp: %s", conn.Host(),
			refused.Reason), err)
	}
	return stream, conn, err
}

// A scpStream is the stream of an scp.
type scpStream struct {
	*dial.Stream
	conn *dial.Conn
}

// Write distinguishes a lost connection from an scp that has ended.
func (s scpStream) Write(p []byte) (int, error) {
	n, err := s.Stream.Write(p)
	if err != nil {
		select {
		case <-s.conn.Done():
			err = connectionLost(s.conn)
		case <-time.After(time.Second):
			err = io.ErrUnexpectedEOF
		}
	}
	return n, err
}

// connectionLost returns how a connection ended, and on which host.
func connectionLost(conn *dial.Conn) error {
	if err := conn.Err(); !errors.As(err, new(*dial.Error)) {
		return &dial.Error{Host: conn.Host(), Err: err}
	}
	return conn.Err()
}

// Read ends where an scp ends. With the system's ssh, the exit status of an scp that failed to copy
// everything, and has reported it, is an error of the stream.
func (s scpStream) Read(p []byte) (int, error) {
	n, err := s.Stream.Read(p)
	ended, ok := errors.AsType[*dial.SubsystemError](err)
	if ok && ended.ExitStatus >= 0 && ended.ExitStatus != sshFailed {
		err = io.EOF
	}
	return n, err
}

// sshFailed is the exit status of ssh itself (ssh(1)).
const sshFailed = 255

// adviseOld suggests -O if a host accepts the login but has no SFTP, unless the error does so.
func adviseOld(err error) error {
	text := err.Error()
	if strings.Contains(text, "scp -O") || !errors.Is(err, dial.ErrNoSFTP) {
		return err
	}
	return endpoint.Explain(text+"; if it has scp, `usftp cp -O` copies without SFTP", err)
}

// said returns the standard error output of a program on the host.
func said(stream *dial.Stream) string {
	return strings.ReplaceAll(strings.TrimSpace(stream.Stderr()), "\n", "; ")
}

// unsaid returns an error if an scp that reported no failure has failed. The protocol has no end
// mark: an scp killed between two files looks like one with no more files.
func unsaid(stream *dial.Stream) error {
	status, known := stream.ExitStatus()
	if !known || status == 0 {
		return nil
	}
	why := cmp.Or(said(stream), "it did not say why")
	return fmt.Errorf("scp on the host failed with exit status %d, so files may be missing: %s",
		status, why)
}

// ended returns why an scp has ended too early, if the host tells.
func ended(stream *dial.Stream, conn *dial.Conn) error {
	said := said(stream)
	status, known := stream.ExitStatus()
	switch {
	case conn.Err() != nil:
		return connectionLost(conn)
	case known && status == 127:
		return fmt.Errorf("the host has no scp (%s)", said)
	case said != "":
		return fmt.Errorf("scp on the host ended too early: %s", said)
	case known && status != 0:
		return fmt.Errorf("scp on the host ended too early, with exit status %d", status)
	}
	return errors.New("scp on the host ended too early")
}

// aliveInterval is how long no data may move before the host is asked for a sign of life, and how
// long its answer may take. The protocol itself has no such question.
const aliveInterval = 20 * time.Second

// mostIdle is how long no data may move although the host answers. Devices write to slow flash, and
// check the data they were sent.
const mostIdle = 15 * time.Minute

// A keeper is a [dial.Conn].
type keeper interface {
	Keepalive(ctx context.Context) error
	Host() string
}

// whileAlive returns a context that ends when no data has moved and the host does not answer, or no
// data has moved for much longer.
func whileAlive(ctx context.Context, conn keeper, moved *atomic.Int64) (context.Context,
	func()) {
	ctx, giveUp := context.WithCancelCause(ctx)
	idle := func(why string, t time.Duration) {
		giveUp(&dial.Error{Host: conn.Host(),
			Err: endpoint.Explain(fmt.Sprintf("%s for %v", why, t), net.ErrClosed)})
	}
	go func() {
		ticker := time.NewTicker(aliveInterval)
		defer ticker.Stop()
		last, since := int64(-1), time.Now()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			if now := moved.Load(); now != last {
				last, since = now, time.Now()
				continue
			}
			if time.Since(since) >= mostIdle {
				idle("nothing has moved", mostIdle)
			}
			ask, cancel := context.WithTimeout(ctx, aliveInterval)
			err := conn.Keepalive(ask)
			cancel()
			if err != nil && !errors.Is(err, errors.ErrUnsupported) && ctx.Err() == nil {
				idle("it has not answered", 2*aliveInterval)
			}
		}
	}()
	return ctx, func() { giveUp(nil) }
}
