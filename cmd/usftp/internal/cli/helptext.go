package cli

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/usftp/usftp/cmd/usftp/internal/opt"
	"github.com/usftp/usftp/cmd/usftp/internal/ui"
)

// help writes a command's help.
func help(cmd *cobra.Command, _ []string) {
	w := cmd.OutOrStdout()
	ui.WriteParagraphs(w, cmp.Or(cmd.Long, cmd.Short))
	fmt.Fprintln(w)
	usage(cmd)
}

// usage writes what follows the description in help.
func usage(cmd *cobra.Command) error {
	w := cmd.OutOrStdout()
	fmt.Fprintf(w, "Usage:\n  %s\n", synopsis(cmd))
	if cmd.HasAvailableSubCommands() {
		fmt.Fprint(w, "\nCommands:\n")
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() || sub.Name() == "help" {
				ui.WriteColumn(w, 12, sub.Name(), sub.Short)
			}
		}
	}
	if cmd.HasExample() {
		fmt.Fprintf(w, "\nExamples:\n%s\n", cmd.Example)
	}
	if cmd.HasAvailableFlags() {
		fmt.Fprint(w, "\nFlags:\n")
		eachFlag(cmd, func(form, text string) { ui.WriteColumn(w, 24, form, text) })
		if names := connectionFlags(cmd); names != "" {
			fmt.Fprintln(w, "\nFlags that say how to connect, as for cp, by their long names only:")
			ui.WriteColumn(w, 0, "", names)
		}
	}
	if name := cmd.Name(); name == "cp" || name == "check" || name == "sync" {
		fmt.Fprint(w, "\nExit codes:\n")
		for _, e := range ui.ExitCodes {
			meaning, ofSync := strings.CutPrefix(e.Meaning, "sync: ")
			if !ofSync || name == "sync" {
				ui.WriteColumn(w, 5, e.Code, meaning)
			}
		}
	}
	if !cmd.HasParent() {
		fmt.Fprintf(w, "\nUse `usftp help COMMAND` for more about a command.\n")
	}
	return nil
}

// synopsis returns the usage line, starting with the program's name.
func synopsis(cmd *cobra.Command) string {
	if !cmd.HasParent() {
		return "usftp COMMAND [flags] [operands]"
	}
	return "usftp " + cmd.Use
}

// eachFlag yields the visible flags as "-F, --config file" with their texts.
func eachFlag(cmd *cobra.Command, each func(form, text string)) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if _, grouped := f.Annotations[opt.ConnectionGroup]; !f.Hidden && !grouped {
			each(ui.FlagForm(f))
		}
	})
}

// connectionFlags names the connection flags, if they form a group of their own.
func connectionFlags(cmd *cobra.Command) string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if _, grouped := f.Annotations[opt.ConnectionGroup]; grouped {
			names = append(names, "--"+f.Name)
		}
	})
	return strings.Join(names, " ")
}

// flagError describes a flag error in plain words.
func flagError(cmd *cobra.Command, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		if hint := flagHint(cmd, unknown.GetSpecifiedName()); hint != "" {
			return fmt.Errorf("%w; %s", err, hint)
		}
	}
	var value *pflag.InvalidValueError
	if errors.As(err, &value) && errors.As(err, new(*strconv.NumError)) {
		form, _ := ui.FlagForm(value.GetFlag())
		return fmt.Errorf("%s: %q is not a valid number", strings.TrimSpace(form),
			value.GetValue())
	}
	return err
}

// flagHint says what to write instead of a flag that another tool has, or "".
func flagHint(cmd *cobra.Command, name string) string {
	if cmd.Name() == "sync" {
		switch name {
		case "e", "rsh":
			return "ssh_config is read, and --ssh names another program"
		case "z", "compress":
			return "to compress, use --ssh='ssh -C'"
		case "filter":
			return "use --exclude, --include and --exclude-from"
		}
	}
	if cmd.Name() == "mount" {
		switch name { // those of sshfs
		case "d", "debug":
			return "use -f -vv"
		case "s":
			return "requests always run concurrently"
		case "1":
			return "there is only version 2 of SSH"
		case "C":
			return "to compress, use --ssh='ssh -C'"
		case "p":
			return "use -P"
		}
	}
	long := map[string]string{"F": "config", "i": "identity", "J": "jump", "o": "option",
		"P": "port"}[name]
	if long != "" && cmd.Flags().Lookup(long) != nil {
		return "use --" + long
	}
	return ""
}
