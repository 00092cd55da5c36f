package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/usftp/usftp/internal/site"
	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/service/internal/outside"
	"github.com/usftp/usftp/service/internal/store"
)

func checkCommand(a *ui.App) *cobra.Command {
	var flags flags
	cmd := &cobra.Command{
		Use:     "check --config FILE [flags]",
		Short:   "find out whether usftpd would start",
		Long:    checkLong,
		Example: checkExamples,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return &ui.UsageError{Err: errors.New("check takes no operands")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := newService(cmd.Context(), a, &flags)
			if err != nil {
				return err
			}
			s.Check = true
			return s.check()
		},
	}
	flags.register(cmd.Flags())
	return cmd
}

// check starts the service as far as that has no effect on others.
func (s *service) check() error {
	defer s.closeStore()
	if err := s.Start(); err != nil {
		return err
	}
	if s.store != nil {
		if err := s.away(s.store.Err(), store.Refuses); err != nil {
			return err
		}
	}
	if err := s.away(s.started.outside.reach(), outside.Refuses); err != nil {
		return err
	}
	_, err := fmt.Fprintf(s.App.Out, "%s is in order\n", s.flags.config)
	return err
}

// away returns the error of another service if that refuses what the configuration says. If it only
// does not answer, that is no reason to keep the server from starting, or from taking a
// configuration that shuts somebody out.
func (s *service) away(err error, refuses func(error) bool) error {
	if err == nil || refuses(err) {
		return err
	}
	s.Log.Warn("the server would start all the same", "error", err)
	return nil
}

// forCheck makes the log fit for a person.
func forCheck(made *settings) {
	made.LogFormat, made.LogLevel = "text", slog.LevelWarn
}

// noStoreYet reports whether the store is a file that the server has yet to make, which a check,
// perhaps of another user, must not make in its place.
func noStoreYet(name string) (bool, error) {
	if strings.Contains(name, "://") {
		return false, nil
	}
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if _, err := os.Stat(filepath.Dir(name)); err != nil {
		return false, site.FileError("cannot make the store", name, err)
	}
	return true, nil
}

// warnOfSecrets logs which secrets of the server users can reach. That is no error: a host key may
// have been where it is for years.
func (s *service) warnOfSecrets(made *settings) {
	served := s.Served()
	for _, file := range slices.Concat(made.HostKeys, made.secrets) {
		for _, user := range slices.Sorted(maps.Keys(served)) {
			files := served[user]
			if slices.ContainsFunc(files.Roots(), func(root string) bool { return below(root, file) }) {
				s.Log.Warn("a user can reach a secret of the server", "user", user, "file", file)
				break
			}
		}
	}
}
