package daemon

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/usftp/usftp/internal/cmdline"
	"github.com/usftp/usftp/internal/pace"
	"github.com/usftp/usftp/internal/site"
	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/server/sshd"
	"github.com/usftp/usftp/service/internal/audit"
	"github.com/usftp/usftp/service/internal/store"
)

// group returns a command that only has subcommands.
func group(name, short, long, examples string, below ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: name + " COMMAND", Short: short, Long: long, Example: examples,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return &ui.UsageError{Err: fmt.Errorf("unknown command %q", name+" "+args[0])}
			}
			return &ui.UsageError{Err: fmt.Errorf("%s needs a command", name)}
		},
		RunE: func(*cobra.Command, []string) error { return nil },
	}
	cmd.AddCommand(below...)
	return cmd
}

// storeCommand returns a command on the store, with so many operands.
func storeCommand(use, short string, operands int,
	run func(ctx context.Context, s *store.Store, args []string) error) *cobra.Command {
	var config string
	cmd := &cobra.Command{Use: use, Short: short,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != operands {
				return &ui.UsageError{Err: fmt.Errorf("usage: %s", cmdline.Synopsis(cmd))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			stores := cmd.Name() == "add" || cmd.Name() == "new"
			return withStore(cmd.Context(), config, stores,
				func(s *store.Store, trail *audit.Trail) error {
					err := run(cmd.Context(), s, args)
					if trail != nil && !onlyShows[cmd.Name()] {
						noteCommand(trail, cmd, args, err)
					}
					return err
				})
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&config, "config", "", "the server's configuration `file`")
	return cmd
}

// listCommand returns a command that lists something of the store, for people or in JSON.
func listCommand(short string,
	run func(ctx context.Context, s *store.Store, asJSON bool) error) *cobra.Command {
	var asJSON bool
	cmd := storeCommand("list", short, 0,
		func(ctx context.Context, s *store.Store, _ []string) error { return run(ctx, s, asJSON) })
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object per line")
	return cmd
}

// onlyShows has the commands that change nothing.
var onlyShows = map[string]bool{"list": true, "audit": true}

// noteCommand records an operator's change to the store.
func noteCommand(trail *audit.Trail, cmd *cobra.Command, args []string, err error) {
	done := strings.Join(append([]string{cmd.Parent().Name(), cmd.Name()}, args...), " ")
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Name != "config" {
			done += fmt.Sprintf(" --%s=%s", f.Name, f.Value)
		}
	})
	by := "somebody here"
	if who, err := user.Current(); err == nil {
		by = who.Username
	}
	name := ""
	if of := cmd.Parent().Name(); (of == "user" || of == "totp") && len(args) > 0 {
		name = args[0]
	}
	trail.Admin(by, done, name, err)
}

func userCommand(a *ui.App) *cobra.Command {
	return group("user", "manage the users in the store", userLong, userExamples,
		addUserCommand(a),
		listCommand("list the users in the store",
			func(_ context.Context, s *store.Store, asJSON bool) error {
				return listUsers(a, s, asJSON)
			}),
		keepOutCommand(a, "disable NAME", "let a user in no longer, and end their sessions",
			func(ctx context.Context, s *store.Store, made *settings, name string) error {
				if err := made.notInFile(name); err != nil {
					return err
				}
				return s.DisableUser(ctx, name, made.outsider(name))
			}),
		storeCommand("enable NAME", "let a user in again", 1,
			func(ctx context.Context, s *store.Store, args []string) error {
				return about(args[0], s.EnableUser(ctx, args[0]))
			}),
		storeCommand("expire NAME", "have a password changed at the next login", 1,
			func(ctx context.Context, s *store.Store, args []string) error {
				return about(args[0], s.ExpirePassword(ctx, args[0]))
			}),
		keepOutCommand(a, "remove NAME", "remove a user, but no files, and end their sessions",
			func(ctx context.Context, s *store.Store, _ *settings, name string) error {
				return s.RemoveUser(ctx, name)
			}))
}

func about(user string, err error) error {
	if err != nil {
		return fmt.Errorf("user %s: %w", user, err)
	}
	return nil
}

// goneWithin is how long it takes for sessions to end: as long as for a node that was killed to
// count as dead, and a little.
const goneWithin = 20 * time.Second

// keepOutCommand returns a command that keeps a user out, and tells how many sessions of theirs the
// nodes have ended.
func keepOutCommand(a *ui.App, use, short string, keepOut func(ctx context.Context, s *store.Store,
	made *settings, name string) error) (cmd *cobra.Command) {
	cmd = storeCommand(use, short, 1, func(ctx context.Context, s *store.Store,
		args []string) error {
		name := args[0]
		made, err := readConfig(cmd.Flag("config").Value.String())
		all := int64(0)
		inFile := err == nil && made.notInFile(name) != nil // then the sessions go on
		if err == nil && !inFile {
			all, err = s.SessionsOf(ctx, name)
		}
		if err == nil {
			err = keepOut(ctx, s, made, name)
		}
		if err == nil && !inFile {
			all, err = awaitEnd(ctx, s, name, all)
		}
		if err == nil {
			_, err = fmt.Fprintln(a.Out, ui.Count(all, "session", "sessions"), "ended")
		}
		return about(name, err)
	})
	return cmd
}

// awaitEnd waits until the sessions of a user who is let in no longer have ended, and returns how
// many there were, at least those that were there before.
func awaitEnd(ctx context.Context, s *store.Store, user string, before int64) (int64, error) {
	left, err := s.SessionsOf(ctx, user)
	all := max(before, left)
	for began := time.Now(); err == nil && left > 0 && time.Since(began) < goneWithin; {
		if err = pace.Sleep(ctx, 50*time.Millisecond); err == nil {
			left, err = s.SessionsOf(ctx, user)
		}
	}
	switch {
	case err != nil:
		err = fmt.Errorf("is let in no longer, but it is not known how many sessions go on: %w", err)
	case left > 0:
		err = fmt.Errorf("is let in no longer, but %s on: see the nodes' logs",
			ui.Count(left, "session goes", "sessions go"))
	}
	return all, err
}

// newUser has the flags of user add.
type newUser struct {
	store.User
	keys                               []string // files
	password, replace                  bool
	outside, mustChange                bool
	quotaBytes, bytesASecond, up, down string
}

func addUserCommand(a *ui.App) *cobra.Command {
	var u newUser
	var cmd *cobra.Command
	cmd = storeCommand("add NAME", "add a user to the store", 1,
		func(ctx context.Context, s *store.Store, args []string) error {
			u.Name = args[0]
			if err := noneEmpty(cmd.Flags()); err != nil {
				return err
			}
			made, err := readConfig(cmd.Flag("config").Value.String())
			if err != nil {
				return err
			}
			if err := made.notInFile(u.Name); err != nil {
				return about(u.Name, err)
			}
			given, _ := made.Templates.(templates)
			if err := u.complete(ctx, a, given.groups); err != nil {
				return err
			}
			if err := u.servesStore(made); err != nil {
				return err
			}
			return about(u.Name, s.PutUser(ctx, u.User, u.replace))
		})
	f := cmd.Flags()
	f.StringVar(&u.Root, "root", "",
		"the `directory`, or s3://BUCKET/PREFIX, that appears to the user as /")
	f.StringArrayVar(&u.keys, "key", nil, "a `file` of public keys; may be repeated")
	f.BoolVar(&u.password, "password", false,
		"ask for a password; without a terminal, read it, or its hash")
	f.StringVar(&u.Group, "group", "", "take what is not given here from this `group` of the file")
	f.StringVar(&u.Expires, "expires", "", "the last `day` for logins, such as 2027-01-31")
	f.StringSliceVar(&u.AllowFrom, "allow-from", nil,
		"accept logins only from a `network`, such as 10.1.0.0/16; may be repeated")
	f.BoolVar(&u.ReadOnly, "read-only", false, "the user changes nothing")
	f.StringVar(&u.quotaBytes, "quota-bytes", "", "total `size` of the files, such as 10GB")
	f.Int64Var(&u.QuotaFiles, "quota-files", 0, "`number` of files, directories and links")
	f.StringVar(&u.bytesASecond, "bandwidth", "", "bytes a second, as a `size`, each way")
	f.StringVar(&u.up, "bandwidth-up", "", "the same for what the user sends, as a `size`")
	f.StringVar(&u.down, "bandwidth-down", "", "the same for what the user fetches, as a `size`")
	f.Int64Var(&u.Sessions, "sessions", 0, "`number` of sessions at once (default 100)")
	f.BoolVar(&u.outside, "password-outside", false,
		"the password is checked by [ldap] or [login_hook]")
	f.BoolVar(&u.mustChange, "must-change", false,
		"the password has to be changed at the first login")
	f.BoolVar(&u.SecondFactor, "second-factor", false,
		"ask for a code as well; usftpd totp makes its secret")
	f.BoolVar(&u.replace, "replace", false,
		"replace all settings of a user who is there, who stays disabled if they are")
	return cmd
}

// noneEmpty refuses a flag that is given with nothing or 0, which would count as not given: an empty
// variable of a script must not open more.
func noneEmpty(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		if text := f.Value.String(); text == "" || text == "0" || text == "[]" {
			err = fmt.Errorf("--%s needs a value other than 0: leave it out for its default", f.Name)
		}
	})
	return err
}

// hashed matches hashes of passwords, as crypt(5) has them. One that the server cannot check, such
// as of /etc/shadow, must not become the password.
var hashed = regexp.MustCompile(`^\$[0-9a-z]+\$`)

// complete checks the flags, and reads the files that they name.
func (u *newUser) complete(ctx context.Context, a *ui.App,
	groups map[string]*groupTable) (err error) {
	if err := checkName(u.Name); err != nil {
		return err
	}
	if u.QuotaFiles < 0 || u.QuotaFiles > math.MaxUint32 || u.Sessions < 0 ||
		u.Sessions > math.MaxInt32 {
		return errors.New("a number cannot be negative, nor that large")
	}
	for _, size := range []struct {
		text string
		to   *int64
	}{{u.quotaBytes, &u.QuotaBytes}, {u.bytesASecond, &u.Bandwidth}, {u.up, &u.Up},
		{u.down, &u.Down}} {
		if size.text != "" {
			if *size.to, err = ui.ParseSize(size.text); err != nil {
				return err
			}
		}
	}
	for _, name := range u.keys {
		data, err := os.ReadFile(name)
		if err != nil {
			return site.FileError("cannot read the key", name, err)
		}
		keys := sshd.ParseAuthorizedKeys(name, data)
		if len(keys.Warnings) > 0 {
			return errors.New(keys.Warnings[0])
		}
		if keys.Len() == 0 {
			return fmt.Errorf("no public key in %s", name)
		}
		u.Keys = append(u.Keys, strings.Split(strings.TrimSpace(string(data)), "\n")...)
	}
	if !u.mustChange {
		u.PasswordSet = time.Now()
	}
	if u.outside {
		u.Password = passwordOutside
	}
	if u.password {
		if u.Password, err = newPassword(ctx, a); err != nil {
			return err
		}
		if !hashed.MatchString(u.Password) {
			u.Password = sshd.HashPassword(u.Password)
		} else if err := new(passwordText).UnmarshalText([]byte(u.Password)); err != nil {
			return err
		}
	}
	if err := u.checkWith(groups); err != nil {
		return err
	}
	if len(u.Keys) == 0 && u.Password == "" {
		return fmt.Errorf("%s has no way to log in: use --key or --password", u.Name)
	}
	return nil
}

// checkWith checks the user's settings, as far as this machine can.
func (u *newUser) checkWith(groups map[string]*groupTable) (err error) {
	if isObjects(u.Root) {
		if u.Root, _, _, err = objectRoot(u.Root); err != nil {
			return err
		}
	} else if u.Root != "" {
		if u.Root, err = filepath.Abs(u.Root); err != nil {
			return err
		}
	}
	one, err := storedUser(&u.User, groups, canBeAtomic)
	if errors.Is(err, errNoRoot) {
		return errors.New("--root DIRECTORY is missing, or --group of one that has a root")
	}
	if err != nil {
		return err
	}
	if err := missing(one.Root, one.MakeRoot); err != nil {
		return site.FileError("cannot serve", one.Root, err)
	}
	return nil
}

// servesStore returns an error if the store is in a directory of the user, whom the server would
// leave out.
func (u *newUser) servesStore(made *settings) error {
	given, _ := made.Templates.(templates)
	one, err := storedUser(&u.User, given.groups, canBeAtomic)
	if err != nil {
		return err
	}
	name, err := made.storeName()
	if err != nil {
		return err
	}
	for _, root := range one.Roots() {
		if below(root, name) {
			return fmt.Errorf("cannot serve %s: the store %s is in it", root, name)
		}
	}
	return nil
}

// listedUser is a user of user list --json.
type listedUser struct {
	store.User
	Outsider     bool   `json:"outside,omitempty"`
	Password     string `json:"password,omitempty"` // "here" or "outside"
	MustChange   bool   `json:"must_change,omitempty"`
	SecondFactor string `json:"second_factor,omitempty"`
}

func listedAs(u store.User) listedUser {
	one := listedUser{User: u, Outsider: u.Outsider(), Password: u.Password,
		MustChange: u.Password != "" && u.PasswordSet.IsZero()}
	if one.PasswordSet = u.PasswordSet.UTC(); u.Password == "" || u.Password == passwordOutside {
		one.PasswordSet = time.Time{}
	} else {
		one.Password = "here"
	}
	if u.SecondFactor {
		one.SecondFactor = "totp"
	}
	return one
}

func listUsers(a *ui.App, s *store.Store, asJSON bool) error {
	if asJSON {
		for _, u := range s.Users() {
			if err := ui.WriteJSON(a.Out, listedAs(u)); err != nil {
				return err
			}
		}
		return nil
	}
	w := tabwriter.NewWriter(a.Out, 0, 0, 2, ' ', 0)
	for _, u := range s.Users() {
		var notes []string
		note := func(set bool, text string) {
			if set {
				notes = append(notes, text)
			}
		}
		note(u.Disabled, "disabled")
		note(u.Outsider(), "comes from outside")
		note(u.Group != "", "group "+u.Group)
		note(u.Expires != "", "until "+u.Expires)
		note(len(u.AllowFrom) > 0, "from "+strings.Join(u.AllowFrom, " "))
		note(len(u.Keys) > 0, ui.Count(int64(len(u.Keys)), "key", "keys"))
		note(u.Password != "" && u.Password != passwordOutside, "password")
		note(u.Password == passwordOutside, "password outside")
		note(u.Password != "" && u.PasswordSet.IsZero(), "password to be changed")
		note(u.SecondFactor, "second factor")
		note(u.ReadOnly, "read-only")
		note(u.QuotaBytes > 0, fmt.Sprintf("%d bytes", u.QuotaBytes))
		note(u.QuotaFiles > 0, fmt.Sprintf("%d files", u.QuotaFiles))
		note(u.Bandwidth > 0, fmt.Sprintf("%d bytes/s", u.Bandwidth))
		note(u.Up > 0, fmt.Sprintf("%d bytes/s up", u.Up))
		note(u.Down > 0, fmt.Sprintf("%d bytes/s down", u.Down))
		note(u.Sessions > 0, fmt.Sprintf("%d sessions", u.Sessions))
		fmt.Fprintf(w, "%s\t%s\t%s\n", ui.Printable(u.Name), ui.Printable(u.Root),
			strings.Join(notes, ", "))
	}
	return w.Flush()
}
