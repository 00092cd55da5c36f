package cp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/usftp/usftp/cmd/usftp/internal/connect"
	"github.com/usftp/usftp/cmd/usftp/internal/hosts"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/transfer"
)

// manyCopy is a copy to, from or on several hosts.
type manyCopy struct {
	flags    *flags
	operands []string
	common   []connect.Place // the sources that are not on each host

	sources  *hosts.Sources
	branches map[string]*transfer.Branch // of the source that is a stream, by the host's label
	name     string                      // the stream's name, "" if it has none
	logins   sync.WaitGroup              // logins in progress
}

// many runs the copy on each of several hosts.
func many(cmd *cobra.Command, a *ui.App, flags *flags, operands []string) error {
	ctx := cmd.Context()
	m := &manyCopy{flags: flags, operands: operands}
	if err := m.check(); err != nil {
		return &ui.UsageError{Err: err}
	}
	run, err := flags.hosts.New(a, &flags.Report, "cp", operands)
	if err != nil {
		return err
	}
	run.DryRun = flags.DryRun
	m.sources, err = hosts.NewSources(ctx, a, flags.Config(a, &flags.Report), m.common)
	if err != nil {
		return err
	}
	defer m.sources.Close()
	source, err := m.openStream(ctx, a)
	if err == nil && source != nil && run.AtOnce() < len(run.Hosts) {
		err = fmt.Errorf("a stream goes to all hosts at once: give --parallel %d", len(run.Hosts))
	}
	if err != nil {
		return err
	}
	if source != nil {
		m.branch(run.Hosts, source)
	}
	err = run.Each(ctx, func(ctx context.Context, a *ui.App, h hosts.Host) (hosts.Result, error) {
		return m.copy(ctx, a, h, run.Connections())
	})
	if flags.Verbose > 0 && !flags.JSON {
		a.Console.Tell(m.sources.Read())
	}
	if flags.Verbose >= 2 {
		a.Console.Say("peak memory: " + ui.PeakMemory())
	}
	return err
}

// check refuses operands that are ambiguous with several hosts.
func (m *manyCopy) check() error {
	if len(m.operands) < 2 {
		return errors.New("missing operand: cp needs a source and a target")
	}
	download, err := hosts.Direction(m.operands)
	stream := slices.Contains(m.operands, "-")
	switch {
	case err != nil:
		return err
	case m.flags.Listed() && (stream || len(m.operands) > 2):
		return errListed
	case stream && m.flags.hosts.ReadsInput():
		return errors.New("standard input (-) can only be read once")
	case download && m.operands[len(m.operands)-1] == "-":
		return errors.New("--hosts cannot copy to -: each host's files go into a directory with its name")
	case m.flags.hashes.manifest != "":
		return errors.New("--manifest writes one list and cannot be used with --hosts")
	case m.flags.exactly && download:
		return errors.New("-T cannot be used when downloading with --hosts: files go into a directory for each host")
	}
	if m.common, err = hosts.Common(m.operands, m.flags.through); err != nil {
		return err
	}
	if m.flags.DryRun && stream {
		err = errors.New("--dry-run cannot be used with -")
	}
	return err
}

// openStream opens the source if it is a stream: standard input, or a pipe or device by name. Each
// copy opens other sources itself.
func (m *manyCopy) openStream(ctx context.Context, a *ui.App) (io.Reader, error) {
	for _, p := range m.common {
		name := p.Typed
		if p.Remote {
			continue
		}
		if p.Stream {
			return a.StandardInput(ctx), nil
		}
		info, err := os.Stat(name)
		if err != nil || info.Mode().IsRegular() || info.IsDir() {
			continue // if it does not exist, each copy says so
		}
		if len(m.operands) > 2 {
			return nil, fmt.Errorf("%s can be read only once: copy it alone", name)
		}
		file, err := endpoint.Local{}.Open(ctx, name, 0)
		if err != nil {
			return nil, fmt.Errorf("cannot open %s: %s", name, ui.ReasonOf(err))
		}
		m.name = filepath.Base(name)
		return file, nil
	}
	return nil, nil
}

// branch divides a stream among the hosts.
func (m *manyCopy) branch(all []hosts.Host, source io.Reader) {
	m.branches = make(map[string]*transfer.Branch)
	for i, b := range m.sources.Reader(source, len(all), m.flags.patience) {
		m.branches[all[i].Label] = b
	}
	m.logins.Add(len(all))
}

// copy does one host's part.
func (m *manyCopy) copy(ctx context.Context, a *ui.App, h hosts.Host,
	connections int) (hosts.Result, error) {
	branch := m.branches[h.Label]
	loggedIn := sync.OnceFunc(func() {
		if branch != nil {
			m.logins.Done()
		}
	})
	defer loggedIn()
	if branch != nil {
		defer branch.Leave()
	}
	sources, target, err := connect.ParsePlaces(h.Operands(m.operands), true)
	if err != nil {
		return hosts.Result{}, err
	}
	c, err := m.flags.copier(ctx, a, sources, target)
	if err != nil {
		return hosts.Result{}, err
	}
	if c.Hosts.Config.Connections == 0 {
		c.Hosts.Config.Connections = connections
	}
	m.sources.Lend(c.Task)
	c.open = m.sources.Open
	if branch != nil {
		c.stream = func() transfer.Endpoint { return branch.Endpoint }
		sources[0].Stream, c.name = true, m.name
	}
	c.planFirstRequest(sources, target)
	err = h.Begin(c.Task, sources[0], &target, m.flags.DryRun)
	c.options.MakePath = c.options.MakePath || !target.Remote // if a dry run has not made it
	if loggedIn(); err == nil && branch != nil {
		m.awaitLogins(ctx, a)
	}
	if err == nil {
		c.Copy(sources, target)
	}
	err = c.End()
	return hosts.Result{Files: c.Files, Bytes: c.Bytes, Resumable: c.canResume}, err
}

// awaitLogins waits until the login to every host has succeeded or failed, because a host that logs
// in late would be given up at once. It waits no longer than --patience, unless a question is on
// the screen.
func (m *manyCopy) awaitLogins(ctx context.Context, a *ui.App) {
	all := make(chan struct{})
	go func() {
		m.logins.Wait()
		close(all)
	}()
	timer := time.NewTimer(m.flags.patience)
	defer timer.Stop()
	for {
		select {
		case <-all:
			return
		case <-ctx.Done():
			return
		case <-timer.C:
			if len(a.Turn) == 0 {
				return
			}
			timer.Reset(time.Second)
		}
	}
}
