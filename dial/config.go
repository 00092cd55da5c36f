package dial

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"time"
)

// A Config is what flags give, and who answers questions. The zero value and a nil
// *Config are valid: everything then comes from the user's ssh_config, and nobody
// can be asked. It must not be changed while a [Dialer] uses it.
type Config struct {
	// ConfigFile is read instead of the user's and the system's files (ssh's -F);
	// "none" reads none.
	ConfigFile string
	// Identities are private keys to offer first (-i).
	Identities []string
	// Jump is a list of hosts to pass through, "user@host:port,..." (-J).
	Jump string
	// Options are further words of ssh_config, "Key=Value" or "Key Value" (-o). They
	// win over the files, and the first of one name wins.
	Options []string
	// Port is used where the target names none (-P).
	Port int
	// Ciphers is a list as in ssh_config, with its prefixes +, - and ^ (-c).
	Ciphers string
	// AddressFamily is "any" (or ""), "inet" (-4) or "inet6" (-6).
	AddressFamily string
	// SSH, where not empty, is the command to use as the transport instead of the
	// native one: "ssh", or a command line whose words may be quoted.
	SSH string
	// Server, where not empty, is a command that speaks SFTP itself, on its standard input and
	// output, such as sftp-server. It is run here in place of any connection (sftp's -D).
	Server string
	// Prompter answers questions; with nil nobody is asked, as with BatchMode.
	Prompter Prompter
	// Banner, if set, is given what the server says before one is logged in. It is
	// text of a peer: escape it before a terminal sees it.
	Banner func(host, text string)
	// Logger is told what -v shows. Nil is silence.
	Logger *slog.Logger
	// StateDir, where not empty, is a directory of the program's for what is remembered between
	// runs: the file "logins" in it says which key worked for a user and a server's key, so that the
	// next login signs with it unasked, and which servers do not take that. The directory is made
	// where it is missing.
	StateDir string
	// Nearly, if set, is called once, when the first login of a [Dialer] is likely to succeed: the
	// host has proved who it is, and there is a key to offer that needs no person; else when the
	// server has accepted a key and its signature is on its way, or it has let us in. Further calls
	// of Dial that begin then are ready up to a whole login earlier than those that await the first
	// one's end. roundTrip is how long the way there and back seems to be. It is called from within
	// Dial, and must not block. Not with the system's ssh.
	Nearly func(d *Dialer, roundTrip time.Duration)
	// Env is the environment, as os.Environ gives it; nil is the process's own.
	Env []string
}

// A PromptKind tells what a question is about.
type PromptKind int

const (
	// AskPassword wants the password of User on Host.
	AskPassword PromptKind = iota + 1
	// AskPassphrase wants the passphrase of the key in File.
	AskPassphrase
	// AskChallenge is a question of the server's own (keyboard-interactive); Text is
	// its text and that of a peer, and Echo tells whether the answer may be seen.
	AskChallenge
	// AskHostKey wants "yes", "no", or the fingerprint itself.
	AskHostKey
)

// A Prompt is one question.
type Prompt struct {
	Kind PromptKind
	User string
	Host string
	File string
	// Text is the whole question, ready to be shown but for escaping where it came
	// from a peer.
	Text string
	Echo bool
	// KeyType and Fingerprint ("SHA256:...") are set for AskHostKey.
	KeyType, Fingerprint string
}

// A Prompter asks a person. It is called from one goroutine at a time for each
// Dialer, and must return when ctx is done. An error ends the attempt to log in in
// the way in question; others may follow.
type Prompter interface {
	Prompt(ctx context.Context, p Prompt) (string, error)
}

// PrompterFunc makes a function a [Prompter].
type PrompterFunc func(ctx context.Context, p Prompt) (string, error)

// Prompt calls f.
func (f PrompterFunc) Prompt(ctx context.Context, p Prompt) (string, error) { return f(ctx, p) }

func (c *Config) logger() *slog.Logger {
	if c.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return c.Logger
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
	for i := len(c.Env) - 1; i >= 0; i-- { // as for exec.Cmd, the last one counts
		if v, ok := strings.CutPrefix(c.Env[i], name+"="); ok {
			return v, true
		}
	}
	return "", false
}

func (c *Config) getenv(name string) string {
	v, _ := c.lookupEnv(name)
	return v
}

// sshArgs are the words that give ssh what c and t say, without the host. Ours come
// first, since ssh takes the first value of each word.
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
		args = append(args, "-o", "Port="+itoa(port))
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
