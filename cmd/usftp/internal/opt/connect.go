// Package opt has the groups of flags that several verbs share: how to connect, the part of a tree
// to copy, and the kind of report.
package opt

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/dial"
	"github.com/usftp/usftp/internal/cmdline"
	"github.com/usftp/usftp/internal/keyfile"
	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/transfer"
)

// Connect holds the flags that say how to connect to hosts.
type Connect struct {
	configFile, jump, cipher, program, ssh string
	server, sftpServer, proxy              string
	Tuning                                 tuning
	buffer                                 int64
	Limit                                  int64 // bytes per second; 0 for none
	identities, options                    []string
	port                                   int
	names                                  charsets
	connections, streams, retries          int
	retryFor                               time.Duration
	ipv4, ipv6, batch                      bool
	compress                               bool
	pipes                                  *dial.KeyPipes
}

// Register adds the flags.
func (c *Connect) Register(f *pflag.FlagSet) { c.register(f, letters{compress: "C", batch: "B"}) }

// RegisterSFTP adds the flags, and sftp's -s, -B and -R: elsewhere these letters have other
// meanings, in scp and rsync too.
func (c *Connect) RegisterSFTP(f *pflag.FlagSet) {
	c.register(f, letters{compress: "C", sftpServer: "s"})
	c.Tuning.RegisterSFTP(f)
}

// RegisterRsync adds the flags, with rsync's letter where rsync gives scp's letter to another flag.
func (c *Connect) RegisterRsync(f *pflag.FlagSet) { c.register(f, letters{compress: "z", batch: "B"}) }

// ShareKeys lets c use the keys that others read, where that can be done once.
func (c *Connect) ShareKeys(others *Connect) { c.pipes = others.pipes }

// letters are the letters that differ between commands; "" for none.
type letters struct{ compress, sftpServer, batch string }

func (c *Connect) register(f *pflag.FlagSet, l letters) {
	f.StringVarP(&c.configFile, "config", "F", "",
		"read `file` instead of the user's and the system's ssh_config; \"none\" for neither")
	c.pipes = new(dial.KeyPipes)
	f.StringArrayVarP(&c.identities, "identity", "i", nil,
		"try the private key in `file` first; may be repeated")
	f.StringVarP(&c.jump, "jump", "J", "", "connect through `host`[,host...]")
	f.StringVar(&c.proxy, "proxy", "",
		"connect through the proxy at `url`: socks5://host:port or http://host:port, with user:password@ before host if it wants a login; env takes the one in ALL_PROXY")
	f.StringArrayVarP(&c.options, "option", "o", nil,
		"set an ssh_config option, `word=value`; may be repeated")
	f.IntVarP(&c.port, "port", "P", 0, "connect to this `port`")
	f.StringVarP(&c.cipher, "cipher", "c", "",
		"use these `ciphers`, a list as in ssh_config's Ciphers")
	f.BoolVarP(&c.compress, "compress", l.compress, false,
		"compress the connection, if the host allows it: on links slower than 100 Mbit/s or so")
	f.BoolVarP(&c.ipv4, "ipv4", "4", false, "use IPv4 addresses only")
	f.BoolVarP(&c.ipv6, "ipv6", "6", false, "use IPv6 addresses only")
	f.BoolVarP(&c.batch, "batch", l.batch, false,
		"never ask for passwords, passphrases or confirmation")
	f.StringVar(&c.ssh, "ssh", "",
		"connect with the system's ssh, or with `command` instead")
	f.Lookup("ssh").NoOptDefVal = "ssh"
	cmdline.Values(f, "cipher", ciphers...)
	cmdline.Values(f, "option", optionWords...)
	f.StringVarP(&c.program, "program", "S", "", "like --ssh=`command`")
	f.StringVarP(&c.server, "server", "D", "",
		"run the SFTP server `program` on this machine instead of connecting to a host")
	f.StringVarP(&c.sftpServer, "sftp-server", l.sftpServer, "",
		"run `command` on the host as its SFTP server, such as 'sudo /usr/lib/openssh/sftp-server'; a word without a slash names a subsystem")
	f.Func("iconv",
		"convert names for a host whose `charset` is not UTF-8, such as ISO-8859-1; LOCAL,REMOTE if names here are not UTF-8 either",
		func(text string) (err error) {
			c.names, err = parseCharsets(text)
			return err
		})
	f.FuncP("limit", "l",
		"limit the speed to `rate`: Kbit/s (8192 is 1 MiB/s), or with a unit, such as 10MB or 10Mbit",
		func(text string) (err error) {
			c.Limit, err = parseRate(text)
			return err
		})
	f.IntVar(&c.connections, "connections", 0,
		"use at most `n` connections to a host (default 8, or 1 if each login asks for something)")
	f.IntVar(&c.streams, "streams", 0, "use at most `n` channels of each connection (default 2)")
	SizeVar(f, &c.buffer, "buffer",
		"keep at most `size` bytes of large files, such as 32MiB, in flight over all connections (default: what the links need)")
	f.IntVar(&c.retries, "retries", 5,
		"reconnect up to `n` times in a row without progress, unless a login asks for something")
	f.DurationVar(&c.retryFor, "retry-for", 15*time.Minute,
		"reconnect for up to this `time` without progress")
}

// making are the flags about making a connection, rather than about its use.
var making = []string{"config", "identity", "jump", "proxy", "option", "port", "cipher", "compress",
	"ipv4", "ipv6", "batch", "ssh", "program", "server", "sftp-server", "iconv", "retries",
	"retry-for"}

// Making reports whether a flag is about making a connection.
func (*Connect) Making(name string) bool { return slices.Contains(making, name) }

// OwnPage marks commands with a man page of their own, in [cobra.Command.Annotations]. Its value
// describes their exit codes.
const OwnPage = "page"

// keptLetters are the letters that connection flags keep in every command that does not give them
// to another flag.
const keptLetters = "FiJoPB46"

// RegisterFree adds the connection flags to a command with flags of its own, after those. Their
// letters mean the same as elsewhere, unless the command has taken them for other flags.
func (c *Connect) RegisterFree(f *pflag.FlagSet, taken string) {
	var all pflag.FlagSet
	c.Register(&all)
	for _, name := range making {
		flag := all.Lookup(name)
		if l := flag.Shorthand; l != "" && (!strings.Contains(keptLetters, l) ||
			strings.Contains(taken, l) || f.ShorthandLookup(l) != nil) {
			flag.Shorthand = ""
		}
		all.SetAnnotation(name, cmdline.ConnectionGroup, nil)
		f.AddFlag(flag)
	}
}

// TakenLetter returns a hint to the right connection flags if a flag was given whose letter has
// another meaning in the command, or "".
func TakenLetter(f *pflag.FlagSet) (hint string) {
	var all pflag.FlagSet
	new(Connect).Register(&all)
	for _, letter := range keptLetters {
		given, meant := f.ShorthandLookup(string(letter)), all.ShorthandLookup(string(letter))
		if given != nil && given.Name != meant.Name && given.Changed {
			hint += fmt.Sprintf("; -%c is --%s here, use --%s", letter, given.Name, meant.Name)
		}
	}
	return hint
}

// Topic returns the page `usftp help connection`: all connection flags.
func Topic() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "connection",
		Short: "the flags that say how to connect",
		Long: `These flags say how to connect to hosts. All commands that work on hosts have them,
with the same letters. Where a command gives a letter to a flag of the tool that it is
named after, as ls does with -F and rm with -i, only the long name is for connections.
-c, -D, -S and -l, and the flags about speed, are those of cp, sync, check, shell and
mount alone.`,
	}
	new(Connect).Register(cmd.Flags())
	return cmd
}

// ConfigFile returns the ssh_config named by the flags, or "".
func (c *Connect) ConfigFile() string { return c.configFile }

// Port returns the port of the flags, or "".
func (c *Connect) Port() string {
	if c.port == 0 {
		return ""
	}
	return strconv.Itoa(c.port)
}

// Unattended returns how to connect in the background: it asks and prints nothing, accepts no host
// key, leaves no master connection behind, and the command line cannot change that.
func (c *Connect) Unattended() pool.ConnectConfig {
	own := *c
	own.batch, own.connections = true, 1
	own.options = append([]string{"StrictHostKeyChecking=yes", "UpdateHostKeys=no",
		"ControlMaster=no", "PermitLocalCommand=no"}, c.options...)
	return pool.ConnectConfig{Dial: own.silentConfig(), Connections: 1, Streams: 1,
		Client: own.names.options()}
}

// ciphers and optionWords are offered as completions.
var ciphers = []string{"aes128-gcm@openssh.com", "aes256-gcm@openssh.com",
	"chacha20-poly1305@openssh.com", "aes128-ctr", "aes192-ctr", "aes256-ctr"}

var optionWords = []string{"AddressFamily=", "BatchMode=", "BindAddress=", "BindInterface=",
	"CertificateFile=", "Ciphers=", "Compression=", "ConnectTimeout=", "ConnectionAttempts=",
	"ControlMaster=", "ControlPath=", "GlobalKnownHostsFile=", "HostKeyAlgorithms=",
	"HostKeyAlias=", "HostName=", "IdentitiesOnly=", "IdentityAgent=", "IdentityFile=",
	"KbdInteractiveAuthentication=", "KexAlgorithms=", "LogLevel=", "MACs=",
	"NumberOfPasswordPrompts=", "PasswordAuthentication=", "Port=", "PreferredAuthentications=",
	"ProxyCommand=", "ProxyJump=", "PubkeyAuthentication=", "ServerAliveCountMax=",
	"ServerAliveInterval=", "StrictHostKeyChecking=", "TCPKeepAlive=", "User=",
	"UserKnownHostsFile="}

// IsSSHWord reports whether a word is one of ssh_config's, in any case.
func IsSSHWord(word string) bool {
	return slices.ContainsFunc(optionWords, func(known string) bool {
		return strings.EqualFold(known, word+"=")
	})
}

// Check checks the flags; set reports whether one was given. Errors name flags in full, because
// some commands give the letters to other flags: ls -F is --classify.
func (c *Connect) Check(set func(name string) bool) error {
	if err := c.configMissing(); err != nil {
		return fmt.Errorf("--config %s: %s", c.configFile, ui.ReasonOf(err))
	}
	if name, err := c.identityMissing(); err != nil {
		return fmt.Errorf("--identity %s: %s (-i names a private key, as with ssh)", name,
			ui.ReasonOf(err))
	}
	switch {
	case c.ipv4 && c.ipv6:
		return errors.New("--ipv4 and --ipv6 cannot be combined")
	case c.program != "" && c.ssh != "" && c.program != c.ssh:
		return errors.New("--program and --ssh name different programs")
	case c.server != "" && (c.ssh != "" || c.program != ""):
		return errors.New("--server replaces the connection and cannot be combined with --program or --ssh")
	case c.proxy != "" && (c.server != "" || c.ssh != "" || c.program != ""):
		return errors.New("--proxy is for usftp's own connections and cannot be combined with --ssh, --program or --server; ssh has ProxyCommand")
	case set("config") && c.configFile == "":
		return errors.New("--config needs a file, or none")
	case set("proxy") && c.proxy == "":
		return errors.New("--proxy needs a URL, or env")
	case c.server != "" && c.sftpServer != "":
		return errors.New("--server runs a program here and --sftp-server on the host: they cannot be combined")
	case set("server") && strings.TrimSpace(c.server) == "",
		set("sftp-server") && strings.TrimSpace(c.sftpServer) == "":
		return errors.New("--server and --sftp-server need a program")
	case set("jump") && c.jump == "", set("cipher") && c.cipher == "":
		return errors.New("--jump needs a host, and --cipher a list")
	case set("port") && (c.port < 1 || c.port > 65535):
		return fmt.Errorf("--port %d: a port must be from 1 to 65535", c.port)
	case c.retries < 0, c.retryFor <= 0:
		return errors.New("--retries must not be negative, and --retry-for must be a time such as 90s or 2h")
	case set("connections") && (c.connections < 1 || c.connections > 64),
		set("streams") && (c.streams < 1 || c.streams > 10):
		return errors.New("--connections must be from 1 to 64, and --streams from 1 to 10, which is sshd's limit")
	case set("buffer") && c.buffer < leastBuffer:
		return fmt.Errorf("--buffer must be at least %d KiB", leastBuffer>>10)
	case set("ssh") && strings.TrimSpace(c.ssh) == "",
		set("program") && strings.TrimSpace(c.program) == "":
		return errors.New("--ssh and --program need a program")
	}
	return nil
}

// configMissing returns why the file of -F cannot be read. ssh itself would report it once per
// host.
func (c *Connect) configMissing() error {
	if c.configFile == "" || strings.EqualFold(c.configFile, "none") {
		return nil
	}
	info, err := os.Stat(c.configFile)
	if err != nil || !info.Mode().IsRegular() { // a pipe must be opened only once
		return err
	}
	f, err := os.Open(c.configFile)
	if err == nil {
		f.Close()
	}
	return err
}

// identityMissing returns the first file of -i that does not exist or holds no key, and why. ssh
// only warns, but rsync's -in means a dry run that lists changes, and must not become a run with a
// key called "n". The private key may be in the agent alone, and only ssh expands names that are
// not plain paths.
func (c *Connect) identityMissing() (string, error) {
	for _, name := range c.identities {
		if strings.ContainsAny(name, "%$~") {
			continue
		}
		info, err := os.Stat(name)
		if _, public := os.Stat(name + ".pub"); errors.Is(err, fs.ErrNotExist) && public != nil {
			return name, err
		}
		if err == nil && (info.IsDir() || info.Mode().IsRegular() && !holdsKey(name)) {
			return name, errNoKey
		}
	}
	return "", nil
}

var errNoKey = errors.New("holds no key")

// holdsKey reports whether a file may hold a private or a public key. An unreadable file may.
func holdsKey(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return true
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 64<<10))
	if err != nil || keyfile.IsKey(text) {
		return true
	}
	_, _, _, _, err = ssh.ParseAuthorizedKey(text)
	return err == nil
}

// leastBuffer holds a few requests.
const leastBuffer = 1 << 20

// Config returns how to connect to hosts.
func (c *Connect) Config(a *ui.App, report *Report) pool.ConnectConfig {
	config := c.silentConfig()
	config.Prompter, config.Logger = a.Prompter(c.batch), a.Console.Logger(report.Level())
	if !report.Quiet {
		config.Banner = a.Banner
		config.Compression = new(dial.Compression)
	}
	client := append(c.Tuning.options(), c.names.options()...)
	if c.buffer > 0 {
		client = append(client, usftp.WithBudget(usftp.NewBudget(c.buffer)))
	}
	return pool.ConnectConfig{Dial: config, Connections: c.connections, Streams: c.streams,
		Client: client}
}

// TransferOptions returns the options of a copy that concern connections.
func (c *Connect) TransferOptions() transfer.Options {
	return transfer.Options{Retry: c.Retry(), RateLimit: c.Limit}
}

// Retry returns how lost connections are replaced.
func (c *Connect) Retry() pool.Retry {
	return pool.Retry{Retries: c.retries, RetryFor: c.retryFor}
}

// StatePath returns a path in the directory where this program keeps its state, by the XDG base
// directory specification; "" if there is no such directory.
func StatePath(elem ...string) string {
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) {
		home, err := os.UserHomeDir()
		if err != nil { // systemd and mount(8) start programs without HOME
			u, err := user.Current()
			if err != nil || !filepath.IsAbs(u.HomeDir) {
				return ""
			}
			home = u.HomeDir
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(append([]string{state, "usftp"}, elem...)...)
}

// Journal returns the directory where interrupted copies record their leftovers.
func Journal() string { return StatePath("journal") }

// silentConfig returns how to make connections without a person.
func (c *Connect) silentConfig() *dial.Config {
	config := &dial.Config{
		ConfigFile: c.configFile, Identities: c.identities, Jump: c.jump, Proxy: c.proxy,
		Options: c.options,
		Port:    c.port, Ciphers: c.cipher, SSH: cmp.Or(c.program, c.ssh), Server: c.server,
		SFTPServer: c.sftpServer, KeyPipes: c.pipes,
	}
	if os.Getenv("USFTP_REMEMBER_LOGINS") != "no" {
		config.StateDir = StatePath()
	}
	switch {
	case c.ipv4:
		config.AddressFamily = "inet"
	case c.ipv6:
		config.AddressFamily = "inet6"
	}
	if c.batch {
		config.Options = append([]string{"BatchMode=yes"}, config.Options...)
	}
	if c.compress {
		config.Options = append(config.Options, "Compression=yes")
	}
	return config
}
