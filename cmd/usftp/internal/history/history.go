package history

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/usftp/usftp/internal/ui"
)

const long = `Lists past runs of cp, sync and check, the oldest first: when each began, its result, how
much it copied and how long that took, from where to where, and the manifest that it wrote.
Of check, files are those that match.

The list is in ~/.local/state/usftp/history, which only you can read. It has at most
1 MiB; then its older half is dropped. Runs that were killed are not in it, nor dry runs.
It has operands and no other flags, so no passwords. USFTP_HISTORY=no in the environment
turns it off; to forget it, remove the file.`

// Command returns the verb history.
func Command(a *ui.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "history [flags]",
		Short: "list past copies, syncs and checks",
		Long:  long,
		Example: `  usftp history -n 5
  usftp history --json | jq 'select(.code != 0)'`,
		Args: ui.NoArgs,
	}
	f := cmd.Flags()
	last := f.IntP("last", "n", 0, "list the last `n` only")
	asJSON := f.Bool("json", false, "print one JSON object per line")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if f.Changed("last") && *last < 1 {
			return &ui.UsageError{Err: errors.New("-n must be at least 1")}
		}
		entries, err := Read()
		if err != nil {
			return fmt.Errorf("cannot read %s: %s", file(), ui.ReasonOf(err))
		}
		if *last > 0 {
			entries = entries[max(0, len(entries)-*last):]
		}
		for _, e := range entries {
			if *asJSON {
				err = ui.WriteJSON(a.Out, e)
			} else {
				_, err = fmt.Fprintln(a.Out, ui.Printable(e.text()))
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	return cmd
}

// text returns an entry for a person.
func (e Entry) text() string {
	result := "ok"
	if e.Code != 0 {
		result = fmt.Sprintf("exit %d", e.Code)
	}
	what := []string{ui.Count(e.Files, "file", "files"), ui.Amount(float64(e.Bytes))}
	if e.Failed > 0 {
		what = append(what, fmt.Sprintf("%d failed", e.Failed))
	}
	if e.Deleted > 0 {
		what = append(what, fmt.Sprintf("%d deleted", e.Deleted))
	}
	took := fmt.Sprintf("%.1f s", e.Elapsed.Seconds())
	if e.Elapsed >= time.Minute {
		took = ui.Clock(e.Elapsed)
	}
	sources := strings.Join(e.Sources, " ")
	if e.More > 0 {
		sources += fmt.Sprintf(" and %d more", e.More)
	}
	text := fmt.Sprintf("%s  %-5s  %-8s  %s in %s  %s -> %s", e.Time.Local().Format(time.DateTime),
		e.Command, result, strings.Join(what, ", "), took, sources, e.Target)
	if e.Manifest != "" {
		text += "  manifest " + e.Manifest
	}
	return text
}
