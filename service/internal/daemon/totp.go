package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/server/sshd"
	"github.com/usftp/usftp/service/internal/store"
	"github.com/usftp/usftp/service/internal/totp"
)

// checkCode decides on the code of a user with a second factor.
func (s *service) checkCode(conn ssh.ConnMetadata, code string) error {
	if s.store == nil {
		return fmt.Errorf("%w: there is no store, which would know who has used which code",
			sshd.ErrUndecided)
	}
	ctx, cancel := context.WithTimeout(context.Background(), accountPatience)
	defer cancel()
	name := conn.User()
	return undecided(s.store.UseCode(ctx, name, totp.Hash(name, code),
		func(secret string) (int64, bool) { return totp.Match(secret, code, time.Now()) }))
}

// undecided wraps an error that means that the store did not answer in time.
func undecided(err error) error {
	if errors.Is(err, store.ErrDown) || errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", sshd.ErrUndecided, err)
	}
	return err
}

func totpCommand(a *ui.App) *cobra.Command {
	var issuer string
	var replace bool
	add := storeCommand("new NAME", "make the secret of a user's codes, and print it", 1,
		func(ctx context.Context, s *store.Store, args []string) error {
			return about(args[0], newSecret(ctx, a, s, issuer, args[0], replace))
		})
	host, _ := os.Hostname()
	add.Flags().StringVar(&issuer, "issuer", "", "the `name` of the service in the user's app "+
		"(default: this machine's)")
	add.Flags().BoolVar(&replace, "replace", false, "make a secret that the user has useless")
	add.PreRun = func(*cobra.Command, []string) {
		if issuer == "" {
			issuer = host
		}
	}
	return group("totp", "manage second factors in the store", totpLong, totpExamples,
		add,
		storeCommand("list", "list the users who have a secret, and how many recovery codes", 0,
			func(ctx context.Context, s *store.Store, _ []string) error {
				return listSecrets(ctx, a, s)
			}),
		storeCommand("remove NAME", "remove the secret and the recovery codes of a user", 1,
			func(ctx context.Context, s *store.Store, args []string) error {
				return about(args[0], s.RemoveSecret(ctx, args[0]))
			}))
}

func newSecret(ctx context.Context, a *ui.App, s *store.Store, issuer, name string,
	replace bool) error {
	if err := checkName(name); err != nil {
		return err
	}
	if issuer == "" || strings.Contains(issuer, ":") { // which ends it in the URI
		return fmt.Errorf("--issuer: %q is no name for a service", issuer)
	}
	secret, uri, err := totp.New(issuer, name)
	if err != nil {
		return err
	}
	codes := totp.Recovery()
	var hashes []string
	for _, code := range codes {
		hashes = append(hashes, totp.Hash(name, code))
	}
	if err := s.PutSecret(ctx, name, secret, hashes, replace); err != nil {
		return err
	}
	if u, there := s.User(name); there && !u.SecondFactor && u.Group == "" && !u.Outsider() {
		a.Console.Say(name + " is not asked for codes: repeat usftpd user add with all of their " +
			"flags, --second-factor and --replace")
	}
	fmt.Fprintf(a.Out, "%s\n\nRecovery codes, each of which works once:\n", uri)
	for _, code := range codes {
		fmt.Fprintln(a.Out, code)
	}
	return nil
}

func listSecrets(ctx context.Context, a *ui.App, s *store.Store) error {
	names, recovery, err := s.Secrets(ctx)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(a.Out, 0, 0, 2, ' ', 0)
	for i, name := range names {
		fmt.Fprintf(w, "%s\t%d recovery codes\n", ui.Printable(name), recovery[i])
	}
	return w.Flush()
}
