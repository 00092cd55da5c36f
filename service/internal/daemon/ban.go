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
	add := storeCommand("add ADDRESS", "ban an address on all nodes", 1,
		func(ctx context.Context, s *store.Store, args []string) error {
			network, err := banned(args[0])
			if err == nil && length < time.Second {
				err = errors.New("--for: a ban takes at least a second")
			}
			if err != nil {
				return err
			}
			return s.Bans().Add(ctx, network, length)
		})
	add.Flags().DurationVar(&length, "for", time.Hour, "how long, as a `time` such as 12h")
	return group("ban", "manage the bans in the store", banLong, banExamples,
		storeCommand("list", "list the bans, and how long each holds", 0,
			func(ctx context.Context, s *store.Store, _ []string) error {
				return listBans(ctx, a, s)
			}),
		add,
		storeCommand("lift ADDRESS", "lift a ban on all nodes", 1,
			func(ctx context.Context, s *store.Store, args []string) error {
				network, err := banned(args[0])
				if err != nil {
					return err
				}
				was, err := s.Bans().Lift(ctx, network)
				if err == nil && !was {
					err = fmt.Errorf("%s is not banned", network)
				}
				return err
			}))
}

// banned returns the network by which the server counts an address, which may be given as that.
func banned(text string) (netip.Prefix, error) {
	if prefix, err := netip.ParsePrefix(text); err == nil {
		if network := sshd.Network(prefix.Addr()); network == prefix.Masked() {
			return network, nil
		}
		return prefix, fmt.Errorf("%s: bans are of one IPv4 address or one IPv6 /64", text)
	}
	address, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%q is not an address", text)
	}
	return sshd.Network(address), nil
}

func listBans(ctx context.Context, a *ui.App, s *store.Store) error {
	list, err := s.Bans().List(ctx)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(a.Out, 0, 0, 2, ' ', 0)
	for _, ban := range list {
		fmt.Fprintf(w, "%s\t%s\n", ban.Network, ban.Left.Round(time.Second))
	}
	return w.Flush()
}
