// Package daemon is the program usftpd: its command line, its configuration file, metrics, and the
// PROXY protocol.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/usftp/usftp/internal/cmdline"
	"github.com/usftp/usftp/internal/site"
	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/sshd"
	"github.com/usftp/usftp/service/internal/audit"
	"github.com/usftp/usftp/service/internal/hooks"
	"github.com/usftp/usftp/service/internal/status"
	"github.com/usftp/usftp/service/internal/store"
)

// Main runs the program with its arguments (without its name) and returns the exit code.
func Main(args []string) int {
	a := ui.NewApp("usftpd")
	ctx, stop := a.CatchSignals(context.Background())
	defer stop()
	return cmdline.Run(ctx, a, commandLine(a), args)
}

// commandLine returns the command and its subcommands, the source of parsing, help, completion and
// the man page.
func commandLine(a *ui.App) *cobra.Command {
	var flags flags
	root := &cobra.Command{
		Use:     "usftpd --config FILE [flags]",
		Short:   "serve files to several users over SFTP",
		Long:    long,
		Example: examples,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return &ui.UsageError{Err: fmt.Errorf("unknown command %q", args[0])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := newService(cmd.Context(), a, &flags)
			if err != nil {
				return err
			}
			return s.run(cmd.Context())
		},
	}
	flags.register(root.Flags())
	root.AddCommand(userCommand(a), totpCommand(a), banCommand(a), hooksCommand(a), auditCommand(a),
		checkCommand(a), hashPasswordCommand(a), cmdline.Version(),
		cmdline.Completion(completionLong), healthCommand(), manCommand(root))
	cmdline.Complete(a, root, cmdline.Texts{
		Hint:  func(*cobra.Command, string) string { return "" },
		Usage: func(io.Writer, *cobra.Command) {},
	})
	for _, name := range []string{"log-format", "log-level"} {
		values := root.Flags().Lookup(name).Annotations[cmdline.FlagValues]
		root.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values,
			cobra.ShellCompDirectiveNoFileComp))
	}
	return root
}

// flags is the command line.
type flags struct {
	site.Flags
	config, metrics string
}

// defaultMetrics is the address of --metrics without a value.
const defaultMetrics = "127.0.0.1:9722"

// register is the table of flags.
func (s *flags) register(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVar(&s.config, "config", "", "serve the users that `file` describes")
	s.Flags.Register(f)
	f.StringVar(&s.metrics, "metrics", "",
		"serve metrics for Prometheus on `address`:port ("+defaultMetrics+" without an address)")
	f.Lookup("metrics").NoOptDefVal = defaultMetrics
}

// check validates the command line.
func (s *flags) check() error {
	if s.config == "" {
		return errors.New("--config FILE is missing: it says who may log in, and to what")
	}
	return s.Flags.Check()
}

// override lets the command line take precedence over the file.
func (s *flags) override(made *settings) {
	s.Flags.Override(&made.Settings)
	if s.metrics != "" {
		made.metrics = s.metrics
	}
	// Without a host only this machine should reach the metrics.
	if host, port, err := net.SplitHostPort(made.metrics); err == nil && host == "" {
		made.metrics = net.JoinHostPort("127.0.0.1", port)
	}
}

// apart returns an error if a server could not listen on all addresses at once. BSD lets one socket
// have an address, and another one the port of all addresses.
func apart(addresses []string) error {
	for i, one := range addresses {
		host, port := hostPort(one)
		for _, other := range addresses[:i] {
			otherHost, otherPort := hostPort(other)
			if port == otherPort && port != "" && port != "0" && (host == otherHost ||
				runtime.GOOS == "linux" && (host == "" || otherHost == "")) {
				return fmt.Errorf("nobody can listen on both %s and %s", other, one)
			}
		}
	}
	return nil
}

// hostPort splits an address. The host is "" for all.
func hostPort(address string) (host, port string) {
	host, port, _ = net.SplitHostPort(address)
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		host = ""
	}
	return host, port
}

// A service is the running server.
type service struct {
	site.Site
	flags   *flags
	started *settings // the first that were read
	metrics *metrics  // nil without --metrics
	store   *store.Store
	hooks   *hooks.Hooks  // nil without any
	trail   *audit.Trail  // nil without [audit]
	board   *status.Board // nil without [admin]
	objects *objects
	sweeper *sweeper

	outside   *outsiders               // the last in effect
	hashing   chan struct{}            // one entry for each new password being hashed
	latest    atomic.Pointer[settings] // in effect
	storeName string                   // of its file, or its URL

	storeToCome bool // a check has found no store; the server will create one
}

// newService returns the server that the command line describes.
func newService(ctx context.Context, a *ui.App, flags *flags) (*service, error) {
	if err := flags.check(); err != nil {
		return nil, &ui.UsageError{Err: err}
	}
	s := &service{flags: flags, hashing: make(chan struct{}, atOnceHashed)}
	s.Site = site.Site{App: a, Read: s.read, Accept: s.proxied, Restarts: true,
		Lenient:  true,
		KeyTypes: []string{"ed25519", "ecdsa", "rsa"}, // some clients lack the first
		Prepare:  func() error { return s.prepare(ctx) }}
	return s, nil
}

// prepare opens everything that the settings need.
func (s *service) prepare(ctx context.Context) error {
	if err := s.openStore(ctx); err != nil {
		return err
	}
	if s.metrics != nil && s.store != nil {
		s.metrics.asked(s.store)
	}
	if !s.storeToCome {
		if err := errors.Join(s.useAudit(), s.useHooks()); err != nil {
			return err
		}
	}
	s.warnOfHooks()
	s.Second = s.checkCode
	s.useAdmin()
	s.sweeper = &sweeper{log: s.Log, quotas: s.Quotas, clock: s.clock}
	if s.started.atomic {
		s.Directory = s.sweeper.directory
	}
	s.objects = newObjects(s.started.storage, s.store, s.sweeper)
	s.Open = func(root string) (server.FS, error) { return s.objects.open(ctx, root) }
	return nil
}

// run serves until it is asked to end.
func (s *service) run(ctx context.Context) error {
	defer s.closeStore()
	if err := s.Start(); err != nil {
		return err
	}
	if err := s.serveMetrics(); err != nil {
		return err
	}
	defer s.metrics.close()
	running, stop := context.WithCancel(ctx)
	var ended sync.WaitGroup
	ended.Go(func() { s.sweeper.run(running) })
	ended.Go(func() { s.applyRules(running) })
	if s.board != nil {
		ended.Go(func() { s.board.Run(running) })
	}
	telling, told := context.WithCancel(context.WithoutCancel(ctx)) // until the last session ends
	if s.hooks != nil {
		ended.Go(func() { s.hooks.Run(telling) })
	}
	defer func() {
		stop()
		told()
		ended.Wait()
	}()
	return s.Run(ctx)
}

// read makes settings from the file and the flags.
func (s *service) read() (*site.Settings, error) {
	made, err := readConfig(s.flags.config)
	if err != nil {
		return nil, err
	}
	s.flags.override(made)
	if s.Check {
		forCheck(made)
	}
	s.useOutside(made)
	if made.metrics != "" {
		err = site.CheckAddress(made.metrics)
	}
	if err == nil {
		err = apart(append(slices.Clone(made.Listen), made.metrics))
	}
	if err == nil {
		err = made.checkAdmin()
	}
	for _, one := range made.Users { // the start has checked the first users
		if err == nil && s.store != nil {
			err = keptFrom(&one, s.storeName)
		}
	}
	made.InEffect = func() {
		before := s.latest.Swap(made)
		if made.outside != nil {
			s.outside = made.outside
		}
		s.warnOfSecrets(made)
		gone := made.lacks(before)
		s.EndLogins(func(l sshd.Login) bool { return gone[l.User] })
	}
	if s.started == nil {
		s.started = made
		if made.metrics != "" {
			s.metrics = newMetrics()
			s.subscribe(s.metrics.count)
			if made.metricsUsers > 0 {
				s.subscribe(newUserMetrics(s.metrics.set, made.metricsUsers).count)
			}
		}
	}
	made.Fixed = map[string]string{
		"metrics":            fmt.Sprint(made.metrics, made.metricsUsers),
		"trusted proxies":    fmt.Sprint(made.proxies),
		"the store":          made.store,
		"object storage":     fmt.Sprint(made.storage),
		"how uploads appear": fmt.Sprint(made.atomic),
		"the audit trail":    fmt.Sprint(made.audit),
		"retention":          describeRules(made.rules),
		"the status page":    describeAdmin(made.admin),
		"hooks":              describe(made.hooks),
	}
	return &made.Settings, err
}
