package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/dial"
	"github.com/usftp/usftp/transfer"
)

// copyFlags is what the command line of cp says. The letters and their meanings are scp's, so that
// fingers need not learn.
type copyFlags struct {
	configFile, jump, cipher, program, ssh string
	server                                 string
	tuning                                 tuning
	buffer                                 sizeFlag
	identities, options                    []string
	port                                   int
	connections, streams, retries          int
	retryFor                               time.Duration
	ipv4, ipv6, batch                      bool

	limit                               rateFlag
	preserve, inplace, atomic, fsync    bool
	recursive, compress, legacy, ignore bool
	maxDepth                            int
	maxEntries                          int64
	through, fromFirst, agent           bool
	dryRun, stopOnError, resume, verify bool
	sparse, owners                      bool
	links                               string
	include, exclude                    []string
	hashes                              hashFlags

	quiet, noProgress, json bool
	verbose                 int
}

// register is the table of flags: parsing, help, completion and the man page come from it.
func (c *copyFlags) register(f *pflag.FlagSet) {
	f.SortFlags = false
	c.registerConnection(f)
	c.registerCopying(f)
}

// registerConnection is the part about connections, which check has too.
func (c *copyFlags) registerConnection(f *pflag.FlagSet) {
	f.StringVarP(&c.configFile, "config", "F", "",
		"read `file` instead of the user's and the system's ssh_config; \"none\" reads none")
	f.StringArrayVarP(&c.identities, "identity", "i", nil,
		"offer the private key in `file` first; may be given several times")
	f.StringVarP(&c.jump, "jump", "J", "", "connect by way of `host`[,host...]")
	f.StringArrayVarP(&c.options, "option", "o", nil,
		"a line of ssh_config, as `word=value`; may be given several times")
	f.IntVarP(&c.port, "port", "P", 0, "connect to `port` on the host")
	f.StringVarP(&c.cipher, "cipher", "c", "",
		"use one of these `ciphers`, as the word Ciphers of ssh_config has it")
	f.BoolVarP(&c.ipv4, "ipv4", "4", false, "use IPv4 addresses only")
	f.BoolVarP(&c.ipv6, "ipv6", "6", false, "use IPv6 addresses only")
	f.BoolVarP(&c.batch, "batch", "B", false,
		"never ask for passwords, passphrases or anything else")
	f.StringVar(&c.ssh, "ssh", "",
		"let the system's ssh make the connection, or another `command` that takes its place")
	f.Lookup("ssh").NoOptDefVal = "ssh"
	f.StringVarP(&c.program, "program", "S", "", "like --ssh=`command`")
	f.StringVarP(&c.server, "server", "D", "",
		"talk to this SFTP server `program` here, in place of any host")
	f.VarP(&c.limit, "limit", "l",
		"use no more than `rate`: a number of Kbit/s (8192 is 1 MiB/s), or with a unit, as 10MB or 10Mbit")
	f.IntVar(&c.connections, "connections", 0,
		"use at most `n` connections to a host (default 8, or 1 where each login needs a person)")
	f.IntVar(&c.streams, "streams", 0, "use at most `n` channels of each connection (default 2)")
	f.Var(&c.buffer, "buffer", "have at most `size` bytes of large files in flight, over all connections, such as 32MiB (follows from the links)")
	f.IntVar(&c.retries, "retries", 5, "make a lost connection anew at most `n` times without anything arriving in between, and go on from there; not where a login needs a person")
	f.DurationVar(&c.retryFor, "retry-for", 15*time.Minute,
		"make a lost connection anew for at most a `time` without anything arriving in between")
}

// registerTelling is the part about what is told, which check has too.
func (c *copyFlags) registerTelling(f *pflag.FlagSet) {
	f.BoolVarP(&c.quiet, "quiet", "q", false, "no progress line, no banner, no notes; errors only")
	f.CountVarP(&c.verbose, "verbose", "v", "say what is done; twice: say more")
	f.BoolVar(&c.noProgress, "no-progress", false, "no progress line")
	f.BoolVar(&c.json, "json", false, "write events to standard output, one JSON object a line")
}

// registerBounds is what keeps a tree from having no end.
func (c *copyFlags) registerBounds(f *pflag.FlagSet) {
	f.IntVar(&c.maxDepth, "max-depth", 256, "fail where directories lie deeper than `n` levels, since a server could send them without end; 0 for any depth")
	f.Int64Var(&c.maxEntries, "max-entries", 20_000_000,
		"end where a tree has more than `n` entries; 0 for any number")
}

// registerCopying is the rest of the table.
func (c *copyFlags) registerCopying(f *pflag.FlagSet) {
	f.BoolVarP(&c.preserve, "preserve", "p", false, "keep times and permissions")
	f.BoolVarP(&c.recursive, "recursive", "r", false, "copy directories with all that lies in them")
	f.StringVar(&c.links, "links", "preserve", "with -r: `preserve`, follow or skip symbolic links")
	f.StringArrayVar(&c.exclude, "exclude", nil, "with -r: do not copy what matches `pattern`, nor what lies in it; may be given several times")
	f.StringArrayVar(&c.include, "include", nil,
		"with -r: copy only files that match `pattern`; may be given several times")
	f.BoolVarP(&c.dryRun, "dry-run", "n", false,
		"with -r: say on standard output what would be copied, and copy nothing")
	f.BoolVar(&c.stopOnError, "stop-on-error", false,
		"end at the first error; else what is left is copied all the same")
	c.registerBounds(f)
	f.BoolVarP(&c.compress, "compress", "C", false,
		"compress (only with --ssh: our own SSH has no compression)")
	f.BoolVar(&c.resume, "resume", false, "go on from what an interrupted copy has left, as far as it is proved to be the same; with -r, pass over files whose copy has the same size and time")
	f.BoolVar(&c.verify, "verify", false, "compare what was stored with the source, by the host's hash or by reading it back, before it gets its name")
	c.hashes.register(f)
	f.BoolVar(&c.owners, "owners", false, "give copies the owner and group of what is copied, by number; it is an error where that is refused")
	f.BoolVar(&c.sparse, "sparse", false, "make holes of blocks of zeros in files written here; holes that local files have are kept in any case")
	f.BoolVar(&c.inplace, "inplace", false,
		"write the target itself instead of a temporary file that is renamed")
	f.BoolVar(&c.atomic, "atomic", false, "fail where the target can only be written in place")
	f.BoolVar(&c.fsync, "fsync", false,
		"have the data on the target's disk before it takes its name")
	c.registerTelling(f)
	f.BoolVarP(&c.through, "through", "3", false, "between two hosts copy through this machine, as is done in any case; names with a colon are then hosts' even where a local file is called so")
	f.BoolVarP(&c.agent, "forward-agent", "A", false,
		"no effect, as -s and -T have none (see docs/coming-from-scp.md)")
	f.VarP(&c.tuning, "tune", "X", "nrequests=`n`: as many requests of a file in flight at most; buffer=n: data of a request in bytes at most (both follow from link and server)")
	f.BoolVarP(&c.fromFirst, "from-first", "R", false,
		"refused: between hosts the data comes through this machine (-3)")
	f.BoolVarP(&c.legacy, "scp", "O", false,
		"refused: usftp copies with SFTP, and not with the old protocol of scp")
	// Without a meaning here: -s asks for what is done in any case, and -T trusts names, which ours
	// need not.
	f.BoolVarP(&c.ignore, "sftp", "s", false, "")
	f.BoolVarP(&c.ignore, "no-strict-names", "T", false, "")
	for _, hidden := range []string{"sftp", "no-strict-names"} {
		f.Lookup(hidden).Hidden = true
	}
}

// flagError says in a person's words what is wrong with a flag.
func flagError(err error) error {
	var value *pflag.InvalidValueError
	var number *strconv.NumError
	if errors.As(err, &value) && errors.As(err, &number) {
		form, _ := flagForm(value.GetFlag())
		return fmt.Errorf("%s: %q is not a whole number that can be used", strings.TrimSpace(form),
			value.GetValue())
	}
	return err
}

// leastBuffer is what a few requests take.
const leastBuffer = 1 << 20

// clientOptions are for each client of the copy.
func (c *copyFlags) clientOptions() []usftp.ClientOption {
	options := c.tuning.options()
	if c.buffer > 0 {
		options = append(options, usftp.WithBudget(usftp.NewBudget(int64(c.buffer))))
	}
	return options
}

// treeFlags are those that mean something with -r only.
var treeFlags = []string{"links", "exclude", "include", "dry-run"}

func (c *copyFlags) check(cmd *cobra.Command) error {
	var err error
	set := cmd.Flags().Changed
	switch {
	case c.configMissing() != nil:
		err = fmt.Errorf("-F %s: %s", c.configFile, reasonOf(c.configMissing()))
	case c.ipv4 && c.ipv6:
		err = errors.New("-4 and -6 exclude each other")
	case c.inplace && c.resume:
		err = errors.New("--inplace and --resume exclude each other: what is written in place cannot be told from what was there before")
	case c.inplace && c.atomic:
		err = errors.New("--inplace and --atomic exclude each other")
	case c.program != "" && c.ssh != "" && c.program != c.ssh:
		err = errors.New("-S and --ssh name different programs")
	case !c.recursive && slices.ContainsFunc(treeFlags, set):
		err = fmt.Errorf("--%s is for -r: give -r too, also for a single file",
			treeFlags[slices.IndexFunc(treeFlags, set)])
	case c.links != "preserve" && c.links != "follow" && c.links != "skip":
		err = fmt.Errorf("--links %s: it must be preserve, follow or skip", c.links)
	case c.legacy:
		err = errors.New("-O asks for scp's old protocol, which usftp does not speak: it copies with SFTP; for a host without SFTP use scp -O")
	case c.fromFirst:
		err = errors.New("-R would have one host log in to the other; usftp logs in to both and copies through this machine, which is -3: leave -R out")
	case c.server != "" && (c.ssh != "" || c.program != ""):
		err = errors.New("-D takes the place of any connection, and cannot go with -S or --ssh")
	case set("server") && strings.TrimSpace(c.server) == "":
		err = errors.New("-D needs the name of a program")
	case set("port") && (c.port < 1 || c.port > 65535):
		err = fmt.Errorf("-P %d: a port is a number from 1 to 65535", c.port)
	case c.maxDepth < 0, c.maxEntries < 0:
		err = errors.New("--max-depth and --max-entries take a number from 0 on")
	case c.retries < 0, c.retryFor <= 0:
		err = errors.New("--retries takes a number from 0 on, and --retry-for a time such as 90s or 2h")
	case set("connections") && (c.connections < 1 || c.connections > 64), set("streams") &&
		(c.streams < 1 || c.streams > 10):
		err = errors.New("--connections takes a number from 1 to 64, and --streams one from 1 to 10, as many as sshd allows")
	case set("buffer") && c.buffer < leastBuffer:
		err = fmt.Errorf("--buffer takes %d KiB at least", leastBuffer>>10)
	case set("ssh") && strings.TrimSpace(c.ssh) == "", set("program") &&
		strings.TrimSpace(c.program) == "":
		err = errors.New("--ssh and -S need the name of a program")
	}
	if err == nil {
		err = c.hashes.check(c.dryRun)
	}
	if err != nil {
		return &usageError{cmd.CommandPath(), err}
	}
	return nil
}

// configMissing is why the file of -F cannot be read. ssh itself would say so for each host.
func (c *copyFlags) configMissing() error {
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

// dialConfig is how connections are made.
func (c *copyFlags) dialConfig(a *app) *dial.Config {
	config := &dial.Config{
		ConfigFile: c.configFile, Identities: c.identities, Jump: c.jump, Options: c.options, Port: c.port, Ciphers: c.cipher,
		SSH: c.ssh, Server: c.server, Prompter: a.prompter(c.batch), Logger: a.console.logger(c.verbose), Received: collector(c.recursive),
	}
	if c.program != "" {
		config.SSH = c.program
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
	if c.compress && config.SSH != "" {
		config.Options = append(config.Options, "Compression=yes")
	}
	if c.quiet && c.verbose == 0 {
		config.Logger = a.console.logger(-1)
	}
	if !c.quiet {
		config.Banner = a.banner
	}
	return config
}

// transferOptions is how files are copied.
func (c *copyFlags) transferOptions() transfer.Options {
	o := transfer.Options{
		Preserve: c.preserve, Owners: c.owners, Sync: c.fsync, Sparse: c.sparse,
		Resume: c.resume, Journal: journalDirectory(),
		Verify: c.verify, Hash: c.hashes.algorithm(),
		Retries: c.retries, RetryFor: c.retryFor,
		RateLimit: int64(c.limit),
	}
	switch {
	case c.inplace:
		o.Placement = transfer.InPlace
	case c.atomic:
		o.Placement = transfer.Atomic
	}
	return o
}

// journalDirectory is where interrupted copies note what they have left: where programs keep their
// state, by the XDG base directories.
func journalDirectory() string {
	if state := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(state) {
		return filepath.Join(state, "usftp", "journal")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".local", "state", "usftp", "journal")
}

// treeOptions is how directories are copied.
func (c *copyFlags) treeOptions() transfer.TreeOptions {
	o := transfer.TreeOptions{Include: c.include, Exclude: c.exclude, DryRun: c.dryRun,
		StopOnError: c.stopOnError, MaxDepth: c.maxDepth, MaxEntries: c.maxEntries}
	if c.maxDepth == 0 {
		o.MaxDepth = -1
	}
	if c.maxEntries == 0 {
		o.MaxEntries = -1
	}
	if c.links != "preserve" {
		o.Links = transfer.LinkMode(c.links)
	}
	return o
}
