package dial

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/usftp/usftp/internal/bigpipe"
)

// A process is a helper program, with pipes to it.
type process struct {
	cmd    *exec.Cmd
	in     *os.File // to its standard input
	out    *os.File // from its standard output
	stderr *tail

	drained chan struct{} // its standard error has ended
	exited  chan struct{}
	once    sync.Once
}

// program returns a command for startProcess.
func (c *Config) program(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Env = c.environ()
	if c.IgnoreInterrupts && runtime.GOOS != "windows" && cmd.Err == nil {
		// A signal that is ignored stays ignored in the program that replaces sh.
		cmd.Args = append([]string{"sh", "-c", `trap "" INT; exec "$@"`, "sh"}, cmd.Args...)
		cmd.Args[4], cmd.Path = cmd.Path, "/bin/sh"
	}
	return cmd
}

// startProcess starts cmd with large pipes. It stays in our process group, since it may have to ask
// questions on the terminal.
func startProcess(cmd *exec.Cmd, onLine func(string)) (*process, error) {
	in, toIn, inErr := os.Pipe()
	fromOut, out, outErr := os.Pipe()
	fromStderr, stderr, stderrErr := os.Pipe()
	closeAll := func(files ...*os.File) {
		for _, f := range files {
			f.Close() // f may be nil
		}
	}
	defer closeAll(in, out, stderr)
	err := errors.Join(inErr, outErr, stderrErr)
	if err == nil {
		bigpipe.Widen(toIn)
		bigpipe.Widen(fromOut)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, stderr
		err = cmd.Start()
	}
	if err != nil {
		closeAll(toIn, fromOut, fromStderr)
		return nil, err
	}
	p := &process{cmd: cmd, in: toIn, out: fromOut, stderr: new(tail),
		drained: make(chan struct{}), exited: make(chan struct{})}
	go func() {
		defer close(p.drained)
		defer fromStderr.Close()
		io.Copy(io.MultiWriter(p.stderr, &lineWriter{emit: onLine}), fromStderr)
	}()
	go func() {
		cmd.Wait()
		close(p.exited)
		// Its descendants may keep its standard error open.
		select {
		case <-p.drained:
		case <-time.After(closeLimit / 4):
			fromStderr.SetReadDeadline(time.Now())
		}
	}()
	return p, nil
}

// exitGrace is how long a helper gets to exit once its input has ended, and again after a signal.
const exitGrace = 300 * time.Millisecond

// stop ends the process and reaps it. At the end of its input ssh ends the session cleanly. A
// process that does not exit is asked to, and then killed.
func (p *process) stop() {
	p.once.Do(func() {
		p.in.Close()
		p.out.Close()
		for _, tell := range []func(){func() { terminate(p.cmd.Process) },
			func() { p.cmd.Process.Kill() }} {
			if closedWithin(exitGrace, p.exited) {
				break
			}
			tell()
		}
		closedWithin(closeLimit, p.exited)
		closedWithin(closeLimit/2, p.drained)
	})
}

// exitCode returns the exit code of a process that has ended, otherwise -1.
func (p *process) exitCode() int {
	select {
	case <-p.exited:
		return p.cmd.ProcessState.ExitCode()
	default:
		return -1
	}
}

// A lineWriter passes on lines, made printable. It divides lines that are too long.
type lineWriter struct {
	line []byte
	emit func(string)
}

func (l *lineWriter) Write(p []byte) (int, error) {
	for _, b := range p {
		if b != '\n' {
			l.line = append(l.line, b)
			if len(l.line) < tailSize {
				continue
			}
		}
		if text := printable(l.line); text != "" {
			l.emit(text)
		}
		l.line = l.line[:0]
	}
	return len(p), nil
}

// A proxyConn is a connection through a ProxyCommand.
type proxyConn struct{ *process }

// SyscallConn makes large reads possible.
func (p *proxyConn) SyscallConn() (syscall.RawConn, error) { return p.out.SyscallConn() }

func startProxy(command string, c *Config, onLine func(string)) (*proxyConn, error) {
	p, err := startProcess(c.shell(command), onLine)
	if err != nil {
		return nil, startError("the ProxyCommand", err)
	}
	return &proxyConn{p}, nil
}

// remainingGrace is how long a command that has failed may hold its output open.
const remainingGrace = 100 * time.Millisecond

// remainingOutput reads the output of a command that has failed.
func (p *proxyConn) remainingOutput() []byte {
	p.out.SetReadDeadline(time.Now().Add(remainingGrace))
	rest := make([]byte, sniffLimit)
	n, _ := io.ReadFull(p.out, rest)
	return rest[:n]
}

// failure describes how the command ended, for a connection that failed.
func (p *proxyConn) failure() error {
	closedWithin(exitGrace, p.exited)
	p.stop()
	e := fmt.Sprintf("the ProxyCommand ended (exit status %d)", p.exitCode())
	if text := p.stderr.line(); text != "" {
		e += ": " + text
	}
	return errors.New(e)
}

func (p *proxyConn) Read(b []byte) (int, error)  { return p.out.Read(b) }
func (p *proxyConn) Write(b []byte) (int, error) { return p.in.Write(b) }

func (p *proxyConn) Close() error {
	p.stop()
	return nil
}

// proxyAddr is the address of either end of a ProxyCommand.
type proxyAddr struct{}

func (proxyAddr) Network() string { return "proxy" }
func (proxyAddr) String() string  { return "<no address, by ProxyCommand>" }

func (p *proxyConn) LocalAddr() net.Addr  { return proxyAddr{} }
func (p *proxyConn) RemoteAddr() net.Addr { return proxyAddr{} }

func (p *proxyConn) SetDeadline(t time.Time) error {
	return errors.Join(p.SetReadDeadline(t), p.SetWriteDeadline(t))
}
func (p *proxyConn) SetReadDeadline(t time.Time) error  { return p.out.SetReadDeadline(t) }
func (p *proxyConn) SetWriteDeadline(t time.Time) error { return p.in.SetWriteDeadline(t) }
