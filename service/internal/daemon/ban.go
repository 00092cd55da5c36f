package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/server/sshd"
	"github.com/usftp/usftp/service/internal/store"
)

func banCommand(a *ui.App) *cobra.Command {
	var length time.Duration
	var user string
	add := storeCommand("add ADDRESS", "ban an address on all nodes", 1,
		func(ctx context.Context, s *store.Store, args []string) error {
			source, err := banned(args[0], user)
			if err == nil && length < time.Second {
				err = errors.New("--for: a ban takes at least a second")
			}
			if err != nil {
				return err
			}
			return s.Bans().Add(ctx, source, length)
		})
	add.Flags().DurationVar(&length, "for", time.Hour, "how long, as a `time` such as 12h")
	lift := storeCommand("lift ADDRESS", "lift a ban, and those of users there, on all nodes", 1,
		func(ctx context.Context, s *store.Store, args []string) error {
			source, err := banned(args[0], user)
			if err != nil {
				return err
			}
			was, err := s.Bans().Lift(ctx, source)
			if err == nil && !was {
				err = fmt.Errorf("%s is not banned", source)
			}
			return err
		})
	for _, cmd := range []*cobra.Command{add, lift} {
		cmd.Flags().StringVar(&user, "user", "", "only the passwords of the user with this `name`")
	}
	return group("ban", "manage the bans in the store", banLong, banExamples,
		listCommand("list the bans, and how long each holds",
			func(ctx context.Context, s *store.Store, asJSON bool) error {
				return listBans(ctx, a, s, asJSON)
			}),
		add, lift)
}

// banned returns the source that the server bans for an address, or for the network by which it
// counts, and for a user, if one is named.
func banned(address, user string) (source sshd.Source, err error) {
	source.User = user
	if prefix, err := netip.ParsePrefix(address); err == nil {
		if source.Network = sshd.Network(prefix.Addr()); source.Network != prefix.Masked() {
			err = fmt.Errorf("%s: bans are of one IPv4 address or one IPv6 /64", address)
		}
		return source, err
	}
	parsed, err := netip.ParseAddr(address)
	if err != nil {
		return source, fmt.Errorf("%q is not an address", address)
	}
	source.Network = sshd.Network(parsed)
	return source, nil
}

// listedBan is a ban of ban list --json, as on the status page.
type listedBan struct {
	Network     string `json:"network"`
	User        string `json:"user,omitempty"`
	SecondsLeft int64  `json:"seconds_left"`
}

func listBans(ctx context.Context, a *ui.App, s *store.Store, asJSON bool) error {
	list, err := s.Bans().List(ctx)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(a.Out, 0, 0, 2, ' ', 0)
	for _, ban := range list {
		if asJSON {
			if err := ui.WriteJSON(a.Out, listedBan{ban.Network.String(), ban.User,
				int64(ban.Left.Seconds())}); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(w, "%s\t%s", ban.Network, ban.Left.Round(time.Second))
		if ban.User != "" {
			fmt.Fprintf(w, "\t%s", ui.Printable(ban.User))
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}
