package cmdline

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/usftp/usftp/internal/ui"
)

// usage writes the part of help after the description.
func usage(cmd *cobra.Command) {
	w, gap := cmd.OutOrStdout(), ""
	if cmd.Runnable() || cmd.HasAvailableSubCommands() { // otherwise it is a topic
		fmt.Fprintf(w, "Usage:\n  %s\n", Synopsis(cmd))
		gap = "\n"
	}
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
		fmt.Fprint(w, gap+"Flags:\n")
		eachFlag(cmd, func(form, text string) { ui.WriteColumn(w, 24, form, text) })
		if names := connectionFlags(cmd); names != "" {
			fmt.Fprintf(w, "\nFlags that say how to connect (see `%s help connection`):\n",
				cmd.Root().Name())
			ui.WriteColumn(w, 0, "", names)
		}
	}
}

// Synopsis returns the usage line, starting with the program's name.
func Synopsis(cmd *cobra.Command) string {
	if !cmd.HasParent() {
		return cmd.Use
	}
	return cmd.Parent().CommandPath() + " " + cmd.Use
}

// eachFlag yields the visible flags as "-F, --config file" with their texts.
func eachFlag(cmd *cobra.Command, each func(form, text string)) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if _, grouped := f.Annotations[ConnectionGroup]; !f.Hidden && !grouped {
			each(ui.FlagForm(f))
		}
	})
}

// connectionFlags names the connection flags, if they form a group of their own.
func connectionFlags(cmd *cobra.Command) string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if _, grouped := f.Annotations[ConnectionGroup]; grouped {
			name := "--" + f.Name
			if f.Shorthand != "" {
				name = "-" + f.Shorthand + "/" + name
			}
			names = append(names, name)
		}
	})
	return strings.Join(names, " ")
}

// startsWithDigit reports whether a value looks like a number that was meant.
func startsWithDigit(value string) bool { return value != "" && '0' <= value[0] && value[0] <= '9' }

// flagError describes a flag error in plain words.
func flagError(cmd *cobra.Command, err error,
	hintFor func(*cobra.Command, string) string) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		if hint := hintFor(cmd, unknown.GetSpecifiedName()); hint != "" {
			return fmt.Errorf("%w; %s", err, hint)
		}
	}
	var value *pflag.InvalidValueError
	if !errors.As(err, &value) {
		return err
	}
	if hint := hintFor(cmd, value.GetFlag().Name); hint != "" && !startsWithDigit(value.GetValue()) {
		return fmt.Errorf("%w; %s", err, hint)
	}
	if errors.As(err, new(*strconv.NumError)) {
		form, _ := ui.FlagForm(value.GetFlag())
		wanted := "not a valid number"
		if value.GetFlag().Value.Type() == "bool" {
			wanted = "neither true nor false"
		}
		return fmt.Errorf("%s: %q is %s", strings.TrimSpace(form), value.GetValue(), wanted)
	}
	return err
}
