package files

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/usftp/usftp/cmd/usftp/internal/verb"
	"github.com/usftp/usftp/internal/ui"
)

// A SessionCommand is a command of this package as typed in a session on one host: its operands are
// paths there.
type SessionCommand struct {
	Name    string
	Usage   string // flags and operands
	Short   string
	Changes bool // it changes the host
	Reads   bool // it reads the contents of files

	make func() *spec
}

// SessionCommands returns the commands for sessions.
func SessionCommands() []SessionCommand {
	var commands []SessionCommand
	for _, make := range specs {
		s := make()
		name, usage, _ := strings.Cut(s.use, " ")
		usage = strings.ReplaceAll(usage, "HOST:", "")
		if defaultToDir[name] {
			usage = strings.Replace(usage, "PATH...", "[PATH]...", 1)
		}
		commands = append(commands, SessionCommand{name, usage, s.short, s.acts, s.reads, make})
	}
	return commands
}

// Help describes the command and its flags.
func (c SessionCommand) Help() string {
	s := c.make()
	f := pflag.NewFlagSet(c.Name, pflag.ContinueOnError)
	f.SortFlags = false
	if s.register != nil {
		s.register(f)
	}
	var b strings.Builder
	ui.WriteParagraphs(&b, strings.NewReplacer("HOST:", "", "host:", "").Replace(s.long))
	if f.HasAvailableFlags() {
		b.WriteByte('\n')
	}
	f.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			form, text := ui.FlagForm(f)
			ui.WriteColumn(&b, 24, form, text)
		}
	})
	return b.String()
}

// defaultToDir are the commands that apply to the current directory without an operand.
var defaultToDir = map[string]bool{"ls": true, "df": true, "du": true, "find": true}

// Run runs the command. expand returns the names that an operand stands for, or itself if it is
// literal.
func (c SessionCommand) Run(ctx context.Context, env *verb.Env, args []string,
	expand func(operand string, literal bool) ([]string, error)) error {
	s := c.make()
	f := pflag.NewFlagSet(c.Name, pflag.ContinueOnError)
	f.Usage = func() {}
	if s.register != nil {
		s.register(f)
	}
	if s.acts && f.ShorthandLookup("v") == nil {
		f.BoolVarP(&env.Verbose, "verbose", "v", false, "print what is done")
	}
	// sftp's ls -f does not sort; its other flags are those of ls.
	if unsorted := f.Lookup("unsorted"); unsorted != nil && f.ShorthandLookup("f") == nil {
		f.AddFlag(&pflag.Flag{Name: "f", Shorthand: "f", Value: unsorted.Value,
			NoOptDefVal: "true"})
	}
	switch {
	case !s.rawArguments:
		if err := f.Parse(historical(c.Name, f, args)); err != nil {
			return &ui.UsageError{Err: err}
		}
		args = f.Args()
	case len(args) == 0 || strings.HasPrefix(args[0], "-") || args[0] == "(" || args[0] == "!":
		args = append([]string{"."}, args...) // the expression comes first
	}
	if s.take != nil {
		var err error
		if args, err = s.take(f, args); err != nil {
			return &ui.UsageError{Err: err}
		}
	}
	if len(args) == 0 && defaultToDir[c.Name] {
		args = []string{"."}
	}
	if len(args) < s.least {
		return &ui.UsageError{Err: errors.New("missing operand")}
	}
	if slices.Contains(args, "") { // what is in it would be taken for what is in /
		return &ui.UsageError{Err: errors.New("empty operand")}
	}
	return s.runOn(ctx, env, len(args), func(i int, literal bool) ([]string, error) {
		return expand(args[i], literal)
	})
}
