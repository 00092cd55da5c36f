package site

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/usftp/usftp/internal/ui"
)

// Run serves until ctx ends, and then until the running sessions have ended or the grace period is
// over. Start comes first.
func (s *Site) Run(ctx context.Context) error {
	listeners, err := s.listen()
	if err != nil {
		return err
	}
	counting, end := context.WithCancel(ctx)
	defer s.recounting.Wait()
	defer end()
	s.reloadOnHangup(s.started.Grace + ui.CleanupTime)
	var restarts <-chan os.Signal
	if s.Restarts {
		asked, stop := restartSignals()
		defer stop()
		restarts = asked
	}
	ended := make(chan error, len(listeners))
	for _, l := range listeners {
		s.Log.Info("listening", "address", l.Addr().String())
		if s.Accept != nil {
			l = s.Accept(l)
		}
		go func() { ended <- s.sshd.Serve(l) }()
	}
	if err := s.greet(listeners); ui.ReaderGone(err) {
		s.Log.Warn("cannot print how to connect", "error", err)
	} else if err != nil {
		s.sshd.Close()
		return err
	}
	s.sockets.accepting()
	for {
		select {
		case <-restarts:
			if next := s.restart(ctx); next != nil {
				return s.retire(ctx, next)
			}
		case <-s.hangups:
			s.reload(counting)
		case <-s.refresh:
			s.refreshUsers(s.Log)
		case err := <-ended: // accepting has failed for good
			s.sshd.Close()
			return err
		case <-ctx.Done():
			return s.shutdown(ctx, s.Log)
		}
	}
}

// reloadOnHangup has SIGHUP ask for a reload, and sets how long the end of the program may take.
func (s *Site) reloadOnHangup(patience time.Duration) {
	s.App.Signals.Set(patience, s.askReload)
}

func (s *Site) askReload() {
	select {
	case s.hangups <- struct{}{}:
	default:
	}
}

// restart returns the process that has taken over, or nil.
func (s *Site) restart(ctx context.Context) *os.Process {
	s.Log.Info("starting the program again")
	process, err := s.sockets.handOver(ctx, s.askReload)
	if err != nil {
		s.Log.Error("the restart failed; this process goes on", "error", err)
		return nil
	}
	if err := tellSystemd(process.Pid); err != nil {
		s.Log.Error("cannot tell systemd of the new process", "error", err)
	}
	s.Log.Info("another process has taken over; running sessions go on", "pid", process.Pid)
	return process
}

// retire lets running sessions end by themselves, or, once ctx ends, within the grace period. Some
// clients may still be logging in. The settings are read again now and whenever the process that
// has taken over does so, or the sessions of a user who is removed meanwhile would go on. That one
// gets each SIGHUP, also of the time in which it started: it may have read the settings before.
func (s *Site) retire(ctx context.Context, next *os.Process) error {
	log := s.Log.With("replaced_process", os.Getpid()) // the other one logs to the same place
	ended := make(chan error, 1)
	go func() { ended <- s.sshd.Retire(ctx) }()
	passOn := func() {
		if next.Signal(syscall.SIGHUP) != nil { // it has ended
			s.askReload()
		}
	}
	s.App.Signals.Set(s.started.Grace+ui.CleanupTime, passOn)
	select {
	case <-s.hangups:
		passOn()
	default:
	}
	s.askReload()
	for {
		select {
		case <-s.hangups:
			s.reread(log)
		case <-s.refresh:
			s.refreshUsers(log)
		case err := <-ended:
			if err != nil {
				return s.shutdown(ctx, log)
			}
			log.Info("ended")
			return &ui.ExitError{Code: ui.ExitOK}
		}
	}
}

// refreshUsers puts the users that MoreUsers returns now into effect, and nothing else: who adds a
// user has not asked for the host keys that are on the disk now.
func (s *Site) refreshUsers(log *slog.Logger) {
	accounts, served, _, err := s.accounts(s.settings)
	if err == nil {
		err = s.directory.Set(accounts)
	}
	if err != nil {
		log.Error("the users cannot be changed; the old ones stay", "error", err)
		return
	}
	s.served.Store(&served)
}

// shutdown lets running sessions end within the grace period.
func (s *Site) shutdown(ctx context.Context, log *slog.Logger) error {
	log.Info("shutting down", "reason", context.Cause(ctx), "grace", s.started.Grace.String())
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx),
		s.started.Grace)
	defer cancel()
	if err := s.sshd.Shutdown(grace); err != nil {
		log.Warn("sessions that were still running were cut off")
	}
	log.Info("ended")
	return &ui.ExitError{Code: ui.ExitOK}
}

// reread reads the settings again, and reports whether they are in effect. The processes before this
// one then read them again, too. If anything is invalid nothing changes.
func (s *Site) reread(log *slog.Logger) bool {
	settings, err := s.read()
	if err == nil {
		err = s.apply(settings)
	}
	if err != nil {
		log.Error("reload failed; the old settings stay in effect", "error", err)
		return false
	}
	log.Info("reloaded")
	s.sockets.tellBefore()
	return true
}

// reload rereads the settings, says what has changed that it cannot put into effect, and recounts
// quotas.
func (s *Site) reload(ctx context.Context) {
	if !s.reread(s.Log) {
		return
	}
	if changed := changedSince(s.started, s.settings); len(changed) > 0 {
		s.Log.Warn("settings have changed that need a restart", "settings",
			strings.Join(changed, ", "))
	}
	if s.reloaded != nil {
		close(s.reloaded)
	}
	quotas, newer := s.quotas(), make(chan struct{})
	s.reloaded = newer
	s.recounting.Go(func() { s.recount(ctx, newer, quotas) })
}

func (s *Site) listen() (listeners []net.Listener, err error) {
	for _, address := range s.started.Listen {
		l, err := s.sockets.listen(address)
		if err != nil {
			closeAll(listeners)
			return nil, err
		}
		listeners = append(listeners, l)
	}
	return listeners, nil
}

// Listen listens on an address of the settings, or takes over the socket of the process before this
// one. It may be called after Start.
func (s *Site) Listen(address string) (net.Listener, error) { return s.sockets.listen(address) }

// listenOn listens on an address, or explains in plain words why it cannot.
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

// FileError describes a failure with a file in plain words.
func FileError(what, name string, err error) error {
	return fmt.Errorf("%s %s: %s", what, name, ui.ReasonOf(err))
}
