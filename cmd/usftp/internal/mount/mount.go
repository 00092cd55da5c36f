// Package mount is the verbs mount and umount.
package mount

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/usftp/usftp/cmd/usftp/internal/complete"
	"github.com/usftp/usftp/cmd/usftp/internal/connect"
	"github.com/usftp/usftp/cmd/usftp/internal/opt"
	"github.com/usftp/usftp/internal/ui"
)

// flags is the command line of mount.
type flags struct {
	opt.Connect
	report     opt.Report
	foreground bool
	fake       bool // check the command line only: mount(8)'s -f
	timeout    time.Duration
	cache      time.Duration
	log        string
	options    options // from -o
}

// buffer limits the bytes of writes that may wait for the host.
const buffer = 8 << 20

func (c *flags) register(f *pflag.FlagSet) {
	f.SortFlags = false
	f.BoolVarP(&c.foreground, "foreground", "f", false,
		"stay in the foreground, and log to standard error")
	f.BoolVar(&c.fake, "fake", false, "")
	f.Lookup("fake").Hidden = true
	f.DurationVar(&c.timeout, "timeout", 30*time.Second,
		"while the host cannot be reached, calls wait for this `time` and then fail")
	f.DurationVar(&c.cache, "cache", time.Second,
		"cache names and attributes for this `time`; make it longer if nobody else changes the files")
	f.StringVar(&c.log, "log", "",
		"log to `file` in the background (default: mount.log in the state directory)")
	c.Connect.Register(f)
	f.Lookup("option").Usage = "set a mount option or an ssh_config option, `option`[,option...]; may be repeated"
	for _, name := range []string{"limit", "connections", "streams", "buffer", "retries",
		"retry-for"} {
		f.Lookup(name).Hidden = true // they are about copies
	}
	f.BoolVarP(&c.report.Quiet, "quiet", "q", false, "log errors only")
	f.CountVarP(&c.report.Verbose, "verbose", "v", "log what is done; repeat for more")
}

// check checks the flags, and separates the options of -o into ours and ssh_config's.
func (c *flags) check(f *pflag.FlagSet) error {
	list := f.Lookup("option").Value.(pflag.SliceValue)
	rest, err := c.options.parse(list.GetSlice())
	if err != nil {
		return err
	}
	if err := list.Replace(rest); err != nil {
		return err
	}
	for name, value := range map[string]string{"ssh": c.options.ssh, "port": c.options.port,
		"sftp-server": c.options.server} {
		if value != "" && !f.Changed(name) {
			if err := f.Set(name, value); err != nil {
				return err
			}
		}
	}
	if c.options.cache != nil && !f.Changed("cache") {
		c.cache = *c.options.cache
	}
	switch {
	case c.timeout < 2*time.Second:
		return errors.New("--timeout must be at least 2s")
	case c.cache < 0:
		return errors.New("--cache must not be negative")
	}
	return c.Connect.Check(f.Changed)
}

// Command returns the verb mount.
func Command(a *ui.App) *cobra.Command {
	var flags flags
	cmd := &cobra.Command{
		Use:         "mount [flags] HOST:[DIR] MOUNTPOINT",
		Short:       "mount a host's directory",
		Long:        long,
		Example:     examples,
		Annotations: map[string]string{opt.OwnPage: exitCodes},
		RunE: func(cmd *cobra.Command, args []string) error {
			err := flags.check(cmd.Flags())
			var from connect.Place
			if err == nil {
				from, err = parsePlaces(args)
			}
			if err != nil {
				return &ui.UsageError{Err: err}
			}
			if flags.fake {
				return nil
			}
			at, err := filepath.Abs(args[1])
			if err != nil {
				return err
			}
			return run(cmd.Context(), a, &flags, from, at)
		},
	}
	flags.register(cmd.Flags())
	cmd.ValidArgsFunction = complete.Places{Connect: &flags.Connect, Local: true,
		Directories: true}.Operands
	return cmd
}

func parsePlaces(args []string) (from connect.Place, err error) {
	if len(args) != 2 {
		return from, errors.New("mount needs a host's directory and a mount point")
	}
	from, err = connect.ParsePlace(args[0])
	if err == nil && !from.Remote {
		err = fmt.Errorf("%s is not on a host: write host:%s", args[0], args[0])
	}
	return from, err
}

// UmountCommand returns the verb umount.
func UmountCommand() *cobra.Command {
	var lazy bool
	cmd := &cobra.Command{
		Use:         "umount [-z] MOUNTPOINT...",
		Short:       "unmount a host's directory",
		Long:        umountLong,
		Annotations: map[string]string{opt.OwnPage: umountExitCodes},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return &ui.UsageError{Err: errors.New("umount needs a mount point")}
			}
			var failed error
			for _, at := range args {
				if err := unmount(at, lazy); err != nil {
					failed = errors.Join(failed, fmt.Errorf("cannot unmount %s: %w", at, err))
				}
			}
			return failed
		},
	}
	cmd.Flags().BoolVarP(&lazy, "lazy", "z", false,
		"detach the mount now, even if programs use it, and end it once they have closed their files")
	return cmd
}
