// Package serve is the verb serve, and hash-password, which makes a password for its configuration.
package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/usftp/usftp/cmd/usftp/internal/ui"
)

func Command(a *ui.App) *cobra.Command {
	var flags flags
	cmd := &cobra.Command{
		Use:     "serve [flags] DIR",
		Short:   "serve a directory to SFTP and SCP clients",
		Long:    long,
		Example: examples,
		RunE: func(cmd *cobra.Command, args []string) error {
			flags.given = cmd.Flags().Changed
			if err := flags.check(args); err != nil {
				return &ui.UsageError{Err: err}
			}
			if flags.stdio {
				return serveStdio(cmd.Context(), a, &flags)
			}
			s := &site{App: a, flags: &flags}
			if len(args) > 0 {
				s.dir = args[0]
			}
			return s.run(cmd.Context())
		},
	}
	flags.register(cmd.Flags())
	return cmd
}

// ErrEnded reports that a server has ended because it was asked to, which is success.
var ErrEnded = errors.New("the server has ended")

// run serves until ctx ends, and then until the running sessions have ended or the grace period is
// over.
func (s *site) run(ctx context.Context) error {
	if err := s.start(); err != nil {
		return err
	}
	listeners, err := s.listen()
	if err != nil {
		return err
	}
	if err := s.serveMetrics(); err != nil {
		closeAll(listeners)
		return err
	}
	defer s.metrics.close()
	defer s.recounting.Wait()
	hangups := make(chan struct{}, 1)
	s.App.Signals.Set(s.started.grace+ui.CleanupTime, func() {
		select {
		case hangups <- struct{}{}:
		default:
		}
	})
	ended := make(chan error, len(listeners))
	for _, l := range listeners {
		s.log.Info("listening", "address", l.Addr().String())
		go func() { ended <- s.sshd.Serve(s.proxied(l)) }()
	}
	if err := s.greet(listeners); ui.ReaderGone(err) {
		s.log.Warn("cannot print how to connect", "error", err)
	} else if err != nil {
		s.sshd.Close()
		return err
	}
	for {
		select {
		case <-hangups:
			s.reload(ctx)
		case err := <-ended: // accepting has failed permanently
			s.sshd.Close()
			return err
		case <-ctx.Done():
			return s.shutdown(ctx)
		}
	}
}

// shutdown lets running sessions end.
func (s *site) shutdown(ctx context.Context) error {
	s.log.Info("shutting down", "reason", context.Cause(ctx), "grace", s.started.grace.String())
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx),
		s.started.grace)
	defer cancel()
	if err := s.sshd.Shutdown(grace); err != nil {
		s.log.Warn("sessions that were still running were cut off")
	}
	s.log.Info("ended")
	return ErrEnded
}

// reload rereads what may have changed. If anything is invalid nothing changes.
func (s *site) reload(ctx context.Context) {
	settings, err := s.read()
	if err == nil {
		err = s.apply(settings)
	}
	if err != nil {
		s.log.Error("reload failed; the old settings stay in effect", "error", err)
		return
	}
	s.log.Info("reloaded")
	quotas := s.quotas()
	s.recounting.Go(func() { s.recount(ctx, quotas) })
}

func (s *site) listen() (listeners []net.Listener, err error) {
	for _, address := range s.started.listen {
		l, err := listenOn(address)
		if err != nil {
			closeAll(listeners)
			return nil, err
		}
		listeners = append(listeners, l)
	}
	return listeners, nil
}

func listenOn(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err == nil {
		return l, nil
	}
	text := fmt.Sprintf("cannot listen on %s: %s", address, causeOf(err))
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		text += "; use port 0 for any free port"
	case errors.Is(err, syscall.EACCES):
		text += "; ports below 1024 need privileges"
	}
	return nil, errors.New(text)
}

// causeOf returns an error's innermost cause, without the names of operations and system calls.
func causeOf(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

func closeAll(listeners []net.Listener) {
	for _, l := range listeners {
		l.Close()
	}
}

// fileError describes what happened to a file in plain words.
func fileError(what, name string, err error) error {
	return fmt.Errorf("%s %s: %s", what, name, ui.ReasonOf(err))
}
