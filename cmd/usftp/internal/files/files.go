// Package files has the commands for files on hosts other than copying: ls, cat, rm and the rest.
// Each is an entry of a table (spec) for a function of package verb: its flags, its help, and how
// its operands are read. The common part is here: it leads from operands such as host:path to an
// Env for each host.
package files

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/cmd/usftp/internal/complete"
	"github.com/usftp/usftp/cmd/usftp/internal/connect"
	"github.com/usftp/usftp/cmd/usftp/internal/hosts"
	"github.com/usftp/usftp/cmd/usftp/internal/opt"
	"github.com/usftp/usftp/cmd/usftp/internal/pattern"
	"github.com/usftp/usftp/cmd/usftp/internal/verb"
	"github.com/usftp/usftp/dial"
	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/pool"
)

// specs makes the commands, in the order of help.
var specs = []func() *spec{list, concatenate, head, tail, remove, move, makeDirectory,
	removeDirectory, link, changeMode, changeOwner, touch, status, space, diskUsage, find}

// Commands returns the commands of this package.
func Commands(a *ui.App) []*cobra.Command {
	var commands []*cobra.Command
	for _, make := range specs {
		_, cmd := newCommand(a, make)
		commands = append(commands, cmd)
	}
	return commands
}

// usualExits describes the exit codes of most commands.
const usualExits = `0 on success; 1 for wrong usage, or if something failed (it was reported, and the rest
was done); 255 if a host could not be reached; 128 plus the number of the signal that
ended usftp.`

// A spec is one command.
type spec struct {
	use, short, long, examples string
	exits                      string // describes the exit codes, if not usualExits
	usageCode                  int    // the tool's exit code for wrong usage; 0 means 1

	register func(f *pflag.FlagSet) // its own flags
	acts     bool                   // it changes files, and -v reports its changes
	reads    bool                   // it reads the contents of files

	// again reports whether the command may be run again from its beginning if the connection was
	// lost meanwhile, and changes whether it changes files. Nil means that it changes nothing, or
	// that it must not be run again if it acts.
	again func() (ok, changes bool)

	// take checks the flags and takes leading operands that are not files. It may be nil.
	take func(f *pflag.FlagSet, args []string) (files []string, err error)

	// place reads an operand. Nil means [connect.ParsePlace].
	place func(arg string, last bool) (connect.Place, error)

	rawArguments bool // take parses the flags too

	least int         // operands that name files
	none  func() bool // reports whether there may be none: a no-op. Nil means no.
	skip  int         // operands before them that are not files

	directories bool // completion offers directories only

	literal literals // operands that are not patterns
	oneHost string   // why or what else, if all operands must be on one host

	run func(ctx context.Context, env *verb.Env, names []string) error
}

// with returns a run function that calls a verb with its options.
func with[O any](do func(context.Context, *verb.Env, O, []string) error,
	o *O) func(context.Context, *verb.Env, []string) error {
	return func(ctx context.Context, env *verb.Env, names []string) error {
		return do(ctx, env, *o, names)
	}
}

// literals selects operands that are not patterns, because they name new files.
type literals int

const (
	noLiterals literals = iota
	lastLiteral
	allLiteral
)

// choice adds a flag without a value, of which several undo each other: the last one counts.
func choice(f *pflag.FlagSet, name, letter, usage string, choose func(on bool)) {
	f.VarPF(choiceValue(choose), name, letter, usage).NoOptDefVal = "true"
}

type choiceValue func(on bool)

func (c choiceValue) Set(text string) error {
	on, err := strconv.ParseBool(text)
	if err == nil {
		c(on)
	}
	return err
}

func (c choiceValue) String() string { return "false" }
func (c choiceValue) Type() string   { return "bool" }

// common are the flags that all commands have.
type common struct {
	opt.Connect
	opt.Report
	hosts hosts.Flags
}

// command is a spec on the command line.
type command struct {
	*spec
	make  func() *spec
	app   *ui.App
	flags common
	all   *pflag.FlagSet
	name  string
}

func newCommand(a *ui.App, make func() *spec) (*command, *cobra.Command) {
	s := make()
	c := &command{spec: s, make: make, app: a}
	cmd := &cobra.Command{
		Use:                s.use,
		Short:              s.short,
		Long:               s.long,
		Example:            s.examples,
		Annotations:        map[string]string{opt.OwnPage: cmp.Or(s.exits, usualExits)},
		DisableFlagParsing: s.rawArguments,
		RunE:               c.execute,
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return c.wrongUsage(cmd.Parent().FlagErrorFunc()(cmd, err))
	})
	c.name = cmd.Name()
	cmd.ValidArgsFunction = complete.Places{Connect: &c.flags.Connect,
		Directories: s.directories, Skip: s.skip}.Operands
	if s.rawArguments {
		cmd.ValidArgsFunction = c.completeFind
	}
	f := cmd.Flags()
	f.SortFlags = false
	if s.register != nil {
		s.register(f)
	}
	c.registerCommon(f)
	return c, cmd
}

// registerCommon adds the flags that all commands have, after the command's own: letters belong
// first to the flags of the tools whose names the commands carry.
func (c *command) registerCommon(f *pflag.FlagSet) {
	if c.acts {
		f.CountVarP(&c.flags.Verbose, "verbose", "v", "print what is done; repeat for more")
	} else {
		f.CountVar(&c.flags.Verbose, "verbose", "print how usftp connects; repeat for more")
	}
	if f.Lookup("quiet") == nil {
		f.BoolVar(&c.flags.Quiet, "quiet", false, "print errors only: no banner or notes")
	}
	f.BoolVar(&c.flags.JSON, "json", false, "print one JSON object per line")
	c.flags.hosts.Register(f)
	taken := ""
	if c.rawArguments {
		taken = "o" // in find's expressions: or
	}
	c.flags.Connect.RegisterFree(f, taken)
	c.all = f
	if insteadOfH[c.name] != "" {
		f.BoolP("h", "h", false, "")
		f.Lookup("h").Hidden = true
	}
	if f.ShorthandLookup("h") != nil || c.rawArguments {
		f.Bool("help", false, "print help")
	}
}

// insteadOfH is for -h where other systems' commands have it for links: with operands, to print help
// would be to do nothing, and succeed.
var insteadOfH = map[string]string{"chmod": "operands that are links are followed",
	"ln": "use -n", "touch": "links are followed"}

func (c *command) execute(cmd *cobra.Command, args []string) error {
	var err error
	typed := args
	if c.take != nil {
		args, err = c.take(cmd.Flags(), args)
	}
	if c.rawArguments && cmd.Flags().Changed("help") {
		return cmd.Help()
	}
	if err != nil {
		return cmd.FlagErrorFunc()(cmd, err)
	}
	if h := cmd.Flags().Lookup("h"); h != nil && h.Changed {
		if len(args) == 0 {
			return cmd.Help()
		}
		return c.wrongUsage(errors.New("-h is not supported: " + insteadOfH[c.name]))
	}
	err = c.flags.Connect.Check(cmd.Flags().Changed)
	if err == nil {
		err = c.flags.hosts.Check(cmd.Flags().Changed)
	}
	if err == nil && c.flags.hosts.Given() {
		return c.onEach(cmd, typed, args)
	}
	var groups []*group
	if err == nil {
		groups, err = c.parse(args)
	}
	if err != nil {
		return c.wrongUsage(err)
	}
	return c.runAll(cmd.Context(), groups)
}

// wrongUsage returns the error for a refused command line, with the exit code of the tool of the
// same name.
func (c *command) wrongUsage(err error) error {
	return &ui.UsageError{Code: cmp.Or(c.usageCode, ui.ExitFailed), Err: err}
}

// anyHost is the host of operands that are text; no real host has this name.
const anyHost = "\x00"

// A group holds operands on one host.
type group struct {
	host   dial.Target // without a path
	places []connect.Place
}

// parse reads the operands and groups them by host.
func (c *command) parse(args []string) ([]*group, error) {
	if len(args) == 0 && c.none != nil && c.none() {
		return nil, nil
	}
	if len(args) < c.least {
		needs := "a file"
		if c.least > 1 {
			needs = fmt.Sprintf("%d files", c.least)
		}
		return nil, fmt.Errorf("missing operand: %s needs %s, such as host:path", c.name, needs)
	}
	var groups []*group
	parse := c.place
	if parse == nil {
		parse = func(arg string, _ bool) (connect.Place, error) { return connect.ParsePlace(arg) }
	}
	for i, arg := range args {
		p, err := parse(arg, i == len(args)-1)
		if err != nil {
			return nil, err
		}
		if !p.Remote {
			return nil, fmt.Errorf("%s is a local path: use plain %s for it (host:path is a path on a host)%s",
				arg, c.name, opt.TakenLetter(c.all))
		}
		host := p.Target
		host.Path = ""
		at := slices.IndexFunc(groups, func(g *group) bool { return g.host == host })
		if c.reads && at < len(groups)-1 { // files are printed in the order of the operands
			at = -1
		}
		if at < 0 {
			at = len(groups)
			groups = append(groups, &group{host: host})
		}
		groups[at].places = append(groups[at].places, p)
	}
	if len(groups) == 2 && groups[0].host.Host == anyHost {
		groups[1].places = append(groups[0].places, groups[1].places...)
		groups = groups[1:]
	}
	if c.oneHost != "" && len(groups) > 1 {
		return nil, fmt.Errorf("%s works on one host at a time%s", c.name, c.oneHost)
	}
	return groups, nil
}

// report returns the report options for connections: for a command that changes files, the first -v
// is about files.
func (c *command) report() *opt.Report {
	report := c.flags.Report
	if c.acts {
		report.Verbose = max(0, report.Verbose-1)
	}
	return &report
}

// runAll runs the verb on each host in turn.
func (c *command) runAll(ctx context.Context, groups []*group) error {
	ctx, stop := c.app.Out.WhileHeard(ctx)
	defer stop()
	report := &reporter{command: c}
	t := connect.NewTask(ctx, c.app, c.flags.Config(c.app, c.report()), report)
	var targets []dial.Target
	for _, g := range groups {
		targets = append(targets, g.host)
	}
	t.Hosts.ConnectAll(ctx, targets...)
	ask := asker(c.app) // one for all hosts, as it reads ahead
	for _, g := range groups {
		report.host = g.host.UserHost()
		host, err := t.Host(connect.Place{Remote: true, Target: g.host})
		if err != nil {
			continue
		}
		env := c.env(t, host, g.host)
		env.Ask = ask
		if len(groups) > 1 {
			env.Prefix = g.host.UserHost() + ":"
		}
		err = c.runOne(t, env, g)
		var failed *ui.ExitError
		var usage *ui.UsageError
		switch {
		case err == nil:
		case errors.As(err, &usage):
			t.Hosts.Close()
			return c.wrongUsage(usage.Err)
		case errors.As(err, &failed):
			if t.Code == ui.ExitOK {
				t.Code = failed.Code
			}
		default:
			t.Fail(err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return t.End()
}

// env returns the environment for the verb.
func (c *command) env(t *connect.Task, on pool.Host, host dial.Target) *verb.Env {
	env := &verb.Env{Client: on.Client, Host: host.UserHost(), Out: c.app.Out,
		Say: c.app.Console.Say, Waiting: c.app.Out.CheckReader,
		JSON: c.flags.JSON, Verbose: c.acts && c.flags.Verbose > 0}
	env.Renew = c.renewing(t, on)
	env.Run = c.runProgram
	env.Operand = func(name string) string { return Operand(host, name) }
	if ui.IsTerminal(c.app.Stdout) && !c.flags.JSON {
		env.Terminal = true
		c.app.EnableEscapes()
		env.Width = max(1, ui.Width(c.app.Stdout)-c.app.Label)
	}
	return env
}

// renewing returns a function by which an Env replaces its connection.
func (c *command) renewing(t *connect.Task, on pool.Host) func(err error,
	progress bool) *usftp.Client {
	conn := pool.NewConn(t.Ctx, on, c.flags.Retry())
	return func(err error, progress bool) *usftp.Client {
		if progress {
			conn.Arrived()
		}
		if !conn.Renew(conn.Host().Client, err, func(a pool.Attempt) {
			c.app.Console.Say(a.Message)
		}) {
			return nil
		}
		return conn.Host().Client
	}
}

// runOn runs the verb on the files that its n operands stand for, again if the connection was lost
// and a repetition does no harm. It expands each operand once: a later run must not act on files
// that have come since.
func (s *spec) runOn(ctx context.Context, env *verb.Env, n int,
	expand func(i int, literal bool) ([]string, error)) error {
	var names []string
	expanded := 0
	run := func() error {
		for ; expanded < n; expanded++ {
			literal := s.literal == allLiteral || s.literal == lastLiteral && expanded == n-1
			found, err := expand(expanded, literal)
			if err != nil {
				return err
			}
			names = append(names, found...)
		}
		return s.run(ctx, env, names)
	}
	ok, changes := !s.acts, false
	if s.again != nil {
		ok, changes = s.again()
	}
	if !ok {
		return run()
	}
	return env.Steadily(changes, run)
}

// runOne runs the verb on one host.
func (c *command) runOne(t *connect.Task, env *verb.Env, g *group) error {
	return c.runOn(t.Ctx, env, len(g.places), func(i int, literal bool) ([]string, error) {
		p := g.places[i]
		if p.Target.Host == anyHost {
			return []string{p.Target.Path}, nil
		}
		return c.expand(t, env, p, literal)
	})
}

// expand returns the paths that an operand stands for. As in a shell, a pattern without a match
// stands for itself: the verb then reports that there is no such file.
func (c *command) expand(t *connect.Task, env *verb.Env, p connect.Place,
	literal bool) (names []string, err error) {
	_, home := t.Home(&p)
	name := p.Path()
	typed := name[home:]
	switch {
	case literal:
		return []string{name}, nil
	case pattern.Has(typed):
		typed = usftp.QuotePattern(name[:home]) + typed
		if c.reads {
			names, err = pattern.ExpandReadable(t.Ctx, env.Client, typed, name,
				func(name, why string) { env.Say(name + ": skipped: " + why) })
		} else {
			names, err = pattern.Expand(t.Ctx, env.Client, typed, name)
		}
		if errors.Is(err, pattern.ErrNoMatch) {
			return []string{name}, nil
		}
		return names, err
	case strings.Contains(typed, `\`):
		return []string{pattern.Unescape(env.Client.WithContext(t.Ctx), name, home)}, nil
	}
	return []string{name}, nil
}
