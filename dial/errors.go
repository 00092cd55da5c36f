package dial

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// An Error is any failure to reach or log in to Host. Err is the cause: a *[NotSSHError],
// *[AuthError], *[HostKeyError], *[SubsystemError], *[JumpError], *[ProxyError] or
// *[UnsupportedError], an error of package net (such as one that matches syscall.ECONNREFUSED, or a
// *net.DNSError), or the context's.
type Error struct {
	Host string // as the caller named it, "user@host"
	Err  error
}

func (e *Error) Error() string {
	if e.Host == "" {
		return sentence(e.Err)
	}
	return e.Host + ": " + sentence(e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Timeout reports whether a time limit was the cause.
func (e *Error) Timeout() bool {
	var t interface{ Timeout() bool }
	return errors.As(e.Err, &t) && t.Timeout()
}

// wsaConnRefused is Windows' WSAECONNREFUSED, which package syscall keeps apart from ECONNREFUSED.
const wsaConnRefused = syscall.Errno(10061)

// sentence puts common causes into plain words.
func sentence(err error) string {
	var dns *net.DNSError
	var op *net.OpError
	var family *net.AddrError
	var jump *JumpError
	var proxy *ProxyError
	switch {
	// it names the hop: its cause alone would seem to be the host's
	case errors.As(err, &jump):
		return jump.Error()
	case errors.As(err, &proxy):
		return proxy.Error()
	case errors.As(err, &family) && family.Err == "no suitable address found":
		return fmt.Sprintf("%s has no address of the family that was asked for (AddressFamily)", family.Addr)
	case errors.As(err, &dns):
		if dns.IsNotFound {
			return fmt.Sprintf("the name %s does not resolve", dns.Name)
		}
		return fmt.Sprintf("the name %s could not be resolved: %s", dns.Name, dns.Err)
	case errors.As(err, &op) && op.Op == "dial" && op.Addr != nil:
		switch {
		case errors.Is(op.Err, syscall.ECONNREFUSED), errors.Is(op.Err, wsaConnRefused):
			return fmt.Sprintf("the connection to %s was refused", op.Addr)
		case op.Timeout():
			return fmt.Sprintf("connecting to %s timed out", op.Addr)
		}
		if sys, ok := errors.AsType[*os.SyscallError](op.Err); ok {
			return fmt.Sprintf("connecting to %s: %s", op.Addr, sys.Err)
		}
		return fmt.Sprintf("connecting to %s: %s", op.Addr, op.Err)
	}
	return err.Error()
}

// A timeoutError reports that one of our own time limits expired.
type timeoutError struct {
	doing string
	after time.Duration
}

func (e *timeoutError) Error() string {
	return fmt.Sprintf("no answer within %v while %s", e.after, e.doing)
}
func (e *timeoutError) Timeout() bool { return true }
func (e *timeoutError) Is(target error) bool {
	return target == os.ErrDeadlineExceeded || target == context.DeadlineExceeded
}

// A describedError puts err into words of our own.
type describedError struct {
	text string
	err  error
}

func (e *describedError) Error() string { return printable([]byte(e.text)) }
func (e *describedError) Unwrap() error { return e.err }

// sshd's words, in place of its version, to whom it hangs up on: MaxStartups and PerSourcePenalties
// in sshd_config(5).
const (
	tooBusy   = "Exceeded MaxStartups"
	penalized = "Not allowed at this time"
)

// A NotSSHError means that the peer does not speak SSH, or hung up before it did.
type NotSSHError struct {
	Text string // its first bytes, made printable; empty if it hung up without sending anything
}

func (e *NotSSHError) Error() string {
	switch e.Text {
	case "":
		return "the server closed the connection before it said anything (it may be too busy, or refuse this address)"
	case tooBusy:
		return fmt.Sprintf("the server is too busy to let anybody log in; it said: %q", e.Text)
	case penalized:
		return fmt.Sprintf("the server refuses this address for a while, as sshd does after failed logins; it said: %q", e.Text)
	}
	return fmt.Sprintf("the server does not speak SSH; it said: %q", e.Text)
}

// An AuthError means that the login was refused.
type AuthError struct {
	User  string
	Tried []string // the methods we tried, each once
	// the keys offered: type, fingerprint, and the file's name or agent's comment
	Keys    []string
	Allowed []string // the methods the server would have taken at the end
	Notes   []string // the reasons why credentials were not offered
	// Partial lists the methods that succeeded, if the server wanted more.
	Partial []string
	Err     error // the error that ended the attempt, if not a refusal
}

func (e *AuthError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "logging in as %s failed", e.User)
	if len(e.Partial) > 0 {
		fmt.Fprintf(&b, " after %s succeeded", strings.Join(e.Partial, " and "))
	}
	b.WriteString(" (tried " + orNothing(e.Tried))
	if len(e.Keys) > 0 {
		b.WriteString(" with " + strings.Join(e.Keys, ", "))
	}
	if len(e.Allowed) > 0 || e.Err == nil { // a server that hangs up does not say what it would accept
		b.WriteString("; the server accepts " + orNothing(e.Allowed))
	}
	b.WriteString(")")
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	if len(e.Notes) > 0 {
		b.WriteString("; " + strings.Join(e.Notes, "; "))
	}
	return b.String()
}

func (e *AuthError) Unwrap() error { return e.Err }

func orNothing(s []string) string {
	if len(s) == 0 {
		return "nothing"
	}
	return strings.Join(s, ", ")
}

// A HostKeyProblem is the problem with a host's key.
type HostKeyProblem int

const (
	HostKeyUnknown HostKeyProblem = iota + 1 // nothing is known about this host
	HostKeyChanged                           // another key is known for it
	HostKeyRevoked                           // RevokedHostKeys or a @revoked line has it, or its CA
	HostKeyWeak                              // an RSA key smaller than RequiredRSASize
)

// A HostKeyError means that a host could not prove its identity.
type HostKeyError struct {
	Problem     HostKeyProblem
	Name        string // the name under which its keys are kept
	KeyType     string
	Fingerprint string // "SHA256:..."
	// File and Line locate the old key of a changed one, or the @revoked line. File is "" if the
	// old key was accepted by this process and could not be stored, and "KnownHostsCommand" if that
	// printed the line. Line is 0 if File is a key revocation list.
	File string
	Line int
	Note string // why nobody was asked, or a person's answer
}

func (e *HostKeyError) Error() string {
	key := fmt.Sprintf("%s key %s", e.KeyType, e.Fingerprint)
	switch e.Problem {
	case HostKeyChanged:
		if e.File == "" {
			return fmt.Sprintf("the host key of %s has changed: it shows the %s, and another was accepted earlier; somebody may be listening in", e.Name, key)
		}
		if e.File == fromCommand {
			return fmt.Sprintf("the host key of %s has changed: it shows the %s, and %s knows another; somebody may be listening in", e.Name, key, e.File)
		}
		return fmt.Sprintf("the host key of %s has changed: it shows the %s, and %s:%d holds another; somebody may be listening in; if the host was reinstalled, `ssh-keygen -f %s -R '%s'` forgets the old key", e.Name, key, e.File, e.Line, e.File, e.Name)
	case HostKeyRevoked:
		place := e.File
		if e.Line > 0 {
			place += fmt.Sprint(":", e.Line)
		}
		return fmt.Sprintf("the host key of %s is revoked: %s names its %s", e.Name, place, key)
	case HostKeyWeak:
		return fmt.Sprintf("the host key of %s is too small: its %s has %s", e.Name, key, e.Note)
	}
	s := fmt.Sprintf("the host key of %s is not known: its %s is in no known_hosts file", e.Name,
		key)
	if e.Note != "" {
		s += ", and " + e.Note
	}
	if e.Note == errNobody.Error() {
		s += "; log in once with ssh to check it, or set StrictHostKeyChecking=accept-new"
	}
	return s
}

// A JumpError is a failure on the way through a jump host.
type JumpError struct {
	Hop string // "user@host" of the hop that failed
	Err error
}

func (e *JumpError) Error() string {
	return fmt.Sprintf("jump host %s: %s", e.Hop, sentence(e.Err))
}
func (e *JumpError) Unwrap() error { return e.Err }

// A ProxyError is a failure of Config.Proxy to connect to a host.
type ProxyError struct {
	Proxy string // its URL, without the login
	To    string // the host's address
	Err   error
}

func (e *ProxyError) Error() string {
	return fmt.Sprintf("the proxy %s cannot be used to reach %s: %s", e.Proxy, e.To, sentence(e.Err))
}
func (e *ProxyError) Unwrap() error { return e.Err }

// ErrNoSFTP is matched by errors of hosts that let us in but start no SFTP.
var ErrNoSFTP = errors.New("the server does not offer SFTP")

// A SubsystemError means that the login succeeded but the server runs no SFTP (then it matches
// [ErrNoSFTP]), or that the system's ssh ended with an error.
type SubsystemError struct {
	Reason string // the answer of the server or ssh to the request
	// ExitStatus is the status of the remote program (or of ssh itself), -1 if unknown.
	ExitStatus int
	Text       string // the end of the peer's standard error

	refused bool // the server refused the request for the subsystem
	noLogin bool // ssh itself failed: to connect, as a rule, or to log in
}

func (e *SubsystemError) Error() string {
	s := e.Reason
	if !e.noLogin {
		s = ErrNoSFTP.Error() + ": " + s
	}
	if e.ExitStatus >= 0 {
		s += fmt.Sprintf(" (exit status %d)", e.ExitStatus)
	}
	if e.Text != "" {
		s += ": " + e.Text
	}
	if e.refused {
		s += "; whoever runs it can add \"Subsystem sftp internal-sftp\" to its sshd_config, and `scp -O` copies without SFTP"
	}
	return s
}

// Is makes e match ErrNoSFTP.
func (e *SubsystemError) Is(target error) bool { return target == ErrNoSFTP && !e.noLogin }

// startError says why a program could not be started, without Go's names for the cause.
func startError(program string, err error) error {
	reason := err
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		reason = e.Err
	} else if e, ok := errors.AsType[*exec.Error](err); ok {
		reason = e.Err
	}
	return &describedError{fmt.Sprintf("%s could not be started: %s", program, reason), err}
}

// causeOf prefers the cause of a done context over the error that closing the connection for it
// produced.
func causeOf(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
