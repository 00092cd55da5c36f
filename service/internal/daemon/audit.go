package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/usftp/usftp/internal/filter"
	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/service/internal/audit"
	"github.com/usftp/usftp/service/internal/store"
)

type auditTable struct {
	Keep   ageText `toml:"keep"`
	Hashes bool    `toml:"hashes"`
}

// usualKeep is how long records are kept.
const usualKeep = 90 * 24 * time.Hour

func parseAge(text string) (age time.Duration, err error) {
	days, isDays := strings.CutSuffix(text, "d")
	if isDays {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 16)
		age = time.Duration(n) * 24 * time.Hour
	} else {
		age, err = time.ParseDuration(text)
	}
	if err != nil || age <= 0 {
		return 0, fmt.Errorf("%q is not a valid time: use a form such as 90d, 12h or 30m", text)
	}
	return age, nil
}

// useAudit keeps the audit trail, if that is configured.
func (s *service) useAudit() error {
	if s.started.audit == 0 {
		return nil
	}
	if s.store == nil {
		return errors.New("the audit trail needs a store: set file in [store]")
	}
	if !s.Check { // which changes nothing
		s.store.KeepRecords(s.started.audit)
	}
	s.trail = audit.New(s.store.Record)
	s.subscribe(s.trail.Event)
	return nil
}

// auditFlags say which records are shown, and how.
type auditFlags struct {
	user, since, until, path string
	only                     []string
	csv, json                bool
}

func auditCommand(a *ui.App) *cobra.Command {
	var flags auditFlags
	cmd := storeCommand("audit", "show the audit trail of all nodes", 0,
		func(ctx context.Context, s *store.Store, _ []string) error {
			return showTrail(ctx, a, s, &flags)
		})
	cmd.Long, cmd.Example = auditLong, auditExamples
	f := cmd.Flags()
	f.StringVar(&flags.user, "user", "", "only what concerns the user with this `name`")
	f.StringVar(&flags.since, "since", "",
		"only what has happened since this `time`: 7d ago, or 2006-01-02 or 2006-01-02T15:04:05Z")
	f.StringVar(&flags.until, "until", "", "only what had happened by this `time`")
	f.StringVar(&flags.path, "path", "",
		"only what concerns files that match this `pattern` of rsync's, such as '*.xml' or /in/")
	f.StringSliceVar(&flags.only, "only", nil,
		"only these `sets`: "+strings.Join(auditSets(), ", "))
	f.BoolVar(&flags.csv, "csv", false, "print comma-separated values, for spreadsheets")
	f.BoolVar(&flags.json, "json", false, "print a line of JSON for each record")
	cmd.RegisterFlagCompletionFunc("only", cobra.FixedCompletions(auditSets(),
		cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func auditSets() []string { return slices.Sorted(maps.Keys(audit.Sets)) }

func showTrail(ctx context.Context, a *ui.App, s *store.Store, flags *auditFlags) error {
	if flags.csv && flags.json {
		return &ui.UsageError{Err: errors.New("use either --csv or --json")}
	}
	since, err := parseWhen("--since", flags.since)
	if err != nil {
		return err
	}
	until, err := parseWhen("--until", flags.until)
	if err != nil {
		return err
	}
	for _, name := range flags.only {
		if audit.Sets[name] == nil {
			return &ui.UsageError{Err: fmt.Errorf("--only: there is no set %q; there are %s", name,
				strings.Join(auditSets(), ", "))}
		}
	}
	var rules filter.Rules
	if flags.path != "" {
		rule, err := filter.NewRefusal(flags.path)
		if err != nil {
			return &ui.UsageError{Err: fmt.Errorf("--path: %w", err)}
		}
		rules = filter.Rules{rule}
	}
	matches := func(path string) bool {
		return path != "" && rules.ExcludeFile(strings.TrimPrefix(path, "/"))
	}
	w := audit.Table(a.Out)
	switch {
	case flags.json:
		w = audit.JSON(a.Out)
	case flags.csv:
		w = audit.CSV(a.Out)
	}
	if err := s.Records(ctx, flags.user, since, until, func(r store.Record) error {
		if !audit.In(r, flags.only) || flags.path != "" && r.Count == 0 &&
			!matches(r.Path) && !matches(r.To) {
			return nil
		}
		return w.Write(r)
	}); err != nil {
		return err
	}
	return w.Flush()
}

// parseWhen parses a time, or how long ago it was.
func parseWhen(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if age, err := parseAge(text); err == nil {
		return time.Now().Add(-age), nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	at, err := time.ParseInLocation(time.DateOnly, text, time.Local)
	if err != nil {
		return at, &ui.UsageError{Err: fmt.Errorf("%s: %q is not a time: use a form such as 7d, "+
			"2006-01-02 or 2006-01-02T15:04:05Z", flag, text)}
	}
	return at, nil
}
