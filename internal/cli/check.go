package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/usftp/usftp/transfer"
)

// checkFlags is what the command line of check says: how to connect and what to tell as for cp, and
// what is compared.
type checkFlags struct {
	copyFlags
	strict bool
}

func (c *checkFlags) register(f *pflag.FlagSet) {
	f.SortFlags = false
	c.registerConnection(f)
	f.StringVar(&c.hashes.hash, "hash", "sha256",
		"the list's hashes are by this `algorithm`, sha256 or blake3")
	f.BoolVar(&c.strict, "strict", false, "files that are not in the list are failures too")
	f.StringArrayVar(&c.exclude, "exclude", nil,
		"pass over what matches `pattern`, in the list too; may be given several times")
	f.StringArrayVar(&c.include, "include", nil,
		"compare only files that match `pattern`; may be given several times")
	c.registerBounds(f)
	f.BoolVar(&c.stopOnError, "stop-on-error", false, "end at the first failure")
	c.registerTelling(f)
	c.links, c.recursive = "preserve", true
}

func (a *app) checkCommand() *cobra.Command {
	var flags checkFlags
	cmd := &cobra.Command{
		Use:                   "check [flags] LIST DIR",
		Short:                 "compare files with a list of hashes, without copying them",
		Long:                  checkLong,
		Example:               checkExamples,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := flags.check(cmd); err != nil {
				return err
			}
			dir, err := parseCheckPlaces(args)
			if err != nil {
				return &usageError{cmd.CommandPath(), err}
			}
			return a.check(cmd.Context(), &flags, args[0], dir)
		},
	}
	flags.register(cmd.Flags())
	return cmd
}

func parseCheckPlaces(args []string) (dir place, err error) {
	if len(args) != 2 {
		return place{}, errors.New("a list and a directory are needed")
	}
	if dir, err = parsePlace(args[1]); err == nil && dir.stream {
		err = errors.New("the second operand is a directory, and - is none")
	}
	return dir, err
}

func (a *app) check(ctx context.Context, flags *checkFlags, name string, dir place) error {
	if !dir.remote {
		tuneLocal()
	}
	list, err := transfer.OpenList(name, flags.hashes.algorithm())
	if err != nil {
		return fmt.Errorf("the list of hashes cannot be used: %w", err)
	}
	defer list.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a.out.stopWhenLost(cancel)
	connect := transfer.ConnectConfig{Dial: flags.dialConfig(a), Connections: flags.connections,
		Streams: flags.streams}
	c := a.newCopier(ctx, connect, flags.transferOptions(), a.checkReporter(flags, name))
	defer c.hosts.close()
	c.checkFiles(flags, list, dir)
	c.report.end(c.code)
	if c.code != exitOK {
		return &exitError{c.code}
	}
	return nil
}

// checkFiles compares. What each file is found to be, the events have told.
func (c *copier) checkFiles(flags *checkFlags, list *transfer.List, dir place) {
	check := transfer.Check{List: list, Strict: flags.strict, Options: c.options,
		TreeOptions: flags.treeOptions()}
	if dir = c.atHome(dir); dir.remote {
		var ok bool
		if check.Host, ok = c.host(dir); !ok {
			return
		}
	}
	check.Dir = dir.path()
	if _, err := check.Run(c.ctx); err != nil {
		c.note(err)
	}
}

func (a *app) checkReporter(flags *checkFlags, list string) reporter {
	if flags.json {
		return newEventWriter(a.out, a.console)
	}
	c := &checker{person: *a.reporter(&flags.copyFlags, place{}).(*person), list: list,
		strict: flags.strict, out: a.out}
	if c.moving && isTerminal(a.stdout) {
		c.out = a.console // else the line that moves would be torn apart
	}
	return c
}

// A checker tells a person what a check has found: of each file on standard output, as sha256sum -c
// does, and the rest on standard error.
type checker struct {
	person
	list   string
	strict bool
	out    io.Writer
}

func (c *checker) event(e transfer.Event) {
	unlisted := e.Kind == transfer.Skipped || errors.Is(e.Err, transfer.ErrUnlisted)
	switch {
	case e.Kind == transfer.Ended:
		c.ended(e)
	case e.Name == "":
		c.person.event(e)
	case e.Kind == transfer.Done && c.verbose:
		c.result(e, "OK")
	case unlisted && (c.verbose || c.strict):
		c.result(e, "not in the list")
	case e.Kind != transfer.Failed || unlisted:
	case !errors.Is(e.Err, transfer.ErrList): // the reason is another than that it differs
		c.result(e, "FAILED to read")
		c.console.say(e.Message)
	case errors.Is(e.Err, fs.ErrNotExist):
		c.result(e, "missing")
	default:
		c.result(e, "FAILED")
		if c.verbose {
			c.console.say(e.Message)
		}
	}
}

// result writes what one file is found to be.
func (c *checker) result(e transfer.Event, what string) {
	fmt.Fprintf(c.out, "%s: %s\n", printable(e.Name), what)
}

// ended ends the line that moves, and sums up.
func (c *checker) ended(e transfer.Event) {
	t := e.Totals
	c.line.updateTree(e)
	c.line.finish(e, e.Err == nil)
	c.line = nil
	if errors.As(e.Err, new(*outputError)) {
		return
	}
	if untold(e) {
		c.console.say(e.Message)
	}
	if c.quiet || e.Err == nil && t.Unlisted == 0 && !c.verbose {
		return
	}
	wrong := t.Failed - t.Missing
	if c.strict {
		wrong -= t.Unlisted
	}
	text := fmt.Sprintf("%s: %d files are what %s says", sourceOf(e), t.Files, c.list)
	for _, part := range []struct {
		n    int64
		what string
	}{{wrong, "differ or cannot be read"}, {t.Missing, "are missing"},
		{t.Unlisted, "are not in it"}} {
		if part.n > 0 {
			text += fmt.Sprintf(", %d %s", part.n, part.what)
		}
	}
	if !t.Complete {
		text += "; not all was looked at"
	}
	c.console.say(text)
}
