package dial

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Config holds a program's flags and the functions that answer questions. The zero value and a
// nil *Config are valid: then everything comes from the user's ssh_config, and nobody is asked. It
// must not be changed while a [Dialer] uses it.
type Config struct {
	// ConfigFile is read instead of the user's and the system's files (ssh's -F). "none" means no
	// file.
	ConfigFile string
	// Identities are private keys to offer first (-i).
	Identities []string
	// Jump is a list of hosts to pass through, "user@host:port,..." (-J).
	Jump string
	// Proxy, if not empty, is a proxy through which the host, or the first of Jump's, is reached
	// instead of by a ProxyCommand: "socks5://host:port" or "http://host:port", which then must
	// allow CONNECT, with "user:password@" before the proxy's host if it wants a login. The proxy
	// resolves the names. "env" means the proxy in the environment variable ALL_PROXY, and none for
	// the hosts in NO_PROXY: names, also of whole domains, addresses, networks, or "*" for all.
	Proxy string
	// Options are further ssh_config keywords, as "Key=Value" or "Key Value" (-o). They override
	// the files, and the first of a name wins.
	Options []string
	// Port is used if the target names none (-P).
	Port int
	// Ciphers is a list as in ssh_config, with its prefixes +, - and ^ (-c).
	Ciphers string
	// AddressFamily is "any" (or ""), "inet" (-4) or "inet6" (-6).
	AddressFamily string
	// SSH, if not empty, is a command to use as the transport instead of the native one: "ssh", or
	// a command line whose words may be quoted.
	SSH string
	// Server, if not empty, is a local command that speaks SFTP on its standard input and output,
	// such as sftp-server. It is run instead of making a connection (sftp's -D).
	Server string
	// SFTPServer, if not empty, is run on the host for SFTP instead of the subsystem sftp (sftp's
	// -s): a command for the user's shell there, such as "sudo /usr/lib/openssh/sftp-server", or,
	// if it has neither a slash nor a space, the name of another subsystem.
	SFTPServer string
	// Prompter answers questions. If it is nil nobody is asked, as with BatchMode.
	Prompter Prompter
	// Banner, if set, gets the messages (not questions) that the server sends before the first
	// login of a [Dialer]. The text comes from a peer: escape it before it reaches a terminal.
	Banner func(host, text string)
	// Logger gets the messages that -v shows. Nil discards them.
	Logger *slog.Logger
	// StateDir, if not empty, is the program's directory for state kept between runs. Its file
	// "logins" says which key worked for a user and a server's key, so that the next login can sign
	// with it at once, and which servers do not accept that. The directory is created if it is
	// missing.
	StateDir string
	// LoginLikely, if set, is called once, when the first login of a [Dialer] is likely to succeed:
	// the host has proved its identity and there is a key to offer that needs no person, or the
	// server has accepted a key, or the login is complete. Calls of Dial that begin then are ready
	// up to a whole login earlier than calls that wait for the first one to end. roundTrip is the
	// estimated round trip. LoginLikely is called from within Dial and must not block. It is not
	// called with the system's ssh.
	LoginLikely func(d *Dialer, roundTrip time.Duration)
	// Compression, if set, measures the effect of compression (ssh_config's Compression, in Options
	// or a file), if the host allows it.
	Compression *Compression
	// KeyPipes, if set, keeps the keys, certificates and known hosts that were read from pipes, for
	// all dialers that share it.
	KeyPipes *KeyPipes
	// Env is the environment, in the form of os.Environ. Nil means the process's own.
	Env []string
	// IgnoreInterrupts starts the programs that connections run (SSH, Server, a ProxyCommand) with
	// SIGINT ignored: for a caller that survives Ctrl-C on a terminal, which reaches them too. It
	// has no effect on Windows.
	IgnoreInterrupts bool

	hop bool // only a way to another host
}

// A PromptKind is the subject of a question.
type PromptKind int

const (
	// AskPassword asks for the password of User on Host.
	AskPassword PromptKind = iota + 1
	// AskPassphrase asks for the passphrase of the key in File.
	AskPassphrase
	// AskChallenge is a question from the server (keyboard-interactive). Text is the peer's, and
	// Echo reports whether the answer may be shown.
	AskChallenge
	// AskHostKey asks for "yes", "no", or the fingerprint itself.
	AskHostKey
	// AskNewPassword asks for a new password of User on Host, which requires one, and then for the
	// same again.
	AskNewPassword
	// AskPIN asks for the PIN of the token that holds the key in File.
	AskPIN
)

// A Prompt is one question.
type Prompt struct {
	Kind PromptKind
	User string
	Host string
	File string
	// Text is the whole question. Escape it before showing it, since parts may come from a peer.
	Text string
	Echo bool
	// KeyType and Fingerprint ("SHA256:...") are set for AskHostKey.
	KeyType, Fingerprint string
}

// A Prompter asks a person. Each Dialer calls it from one goroutine at a time. It must return when
// ctx is done. An error ends this way of logging in; other ways may follow.
type Prompter interface {
	Prompt(ctx context.Context, p Prompt) (string, error)
}

// PrompterFunc adapts a function to a [Prompter].
type PrompterFunc func(ctx context.Context, p Prompt) (string, error)

// Prompt calls f.
func (f PrompterFunc) Prompt(ctx context.Context, p Prompt) (string, error) { return f(ctx, p) }

func (c *Config) logger() *slog.Logger {
	return cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
}

func (c *Config) environ() []string {
	if c.Env == nil {
		return os.Environ()
	}
	return c.Env
}

func (c *Config) lookupEnv(name string) (string, bool) {
	if c.Env == nil {
		return os.LookupEnv(name)
	}
	for _, entry := range slices.Backward(c.Env) { // as for exec.Cmd, the last one counts
		if v, ok := strings.CutPrefix(entry, name+"="); ok {
			return v, true
		}
	}
	return "", false
}

func (c *Config) getenv(name string) string {
	v, _ := c.lookupEnv(name)
	return v
}

// sshArgs returns ssh's arguments for c and t, without the host. Ours come first, since ssh takes
// the first value of each keyword.
func (c *Config) sshArgs(t Target) []string {
	var args []string
	if c.ConfigFile != "" {
		args = append(args, "-F", c.ConfigFile)
	}
	switch c.AddressFamily {
	case "inet":
		args = append(args, "-4")
	case "inet6":
		args = append(args, "-6")
	}
	if t.User != "" {
		args = append(args, "-l", t.User)
	}
	if port := c.port(t); port != 0 {
		args = append(args, "-o", "Port="+strconv.Itoa(port))
	}
	for _, id := range c.Identities {
		args = append(args, "-i", id)
	}
	if c.Jump != "" {
		args = append(args, "-J", c.Jump)
	}
	if c.Ciphers != "" {
		args = append(args, "-c", c.Ciphers)
	}
	for _, o := range c.Options {
		args = append(args, "-o", o)
	}
	return args
}

func (c *Config) port(t Target) int {
	if t.Port != 0 {
		return t.Port
	}
	return c.Port
}
