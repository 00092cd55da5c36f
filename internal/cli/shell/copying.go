package shell

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"github.com/usftp/usftp/internal/cli/report"
	"github.com/usftp/usftp/internal/cli/ui"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/transfer"
)

// A job is what the flags of get and put select.
type job struct {
	options   transfer.Options
	recursive bool
}

// job reads the flags. -P and -R are sftp's older forms.
func (s *Shell) job(r *request) job {
	o := s.flags.TransferOptions()
	o.Journal = s.journal
	o.Resume = r.has('a') || s.flags.resume
	o.Sync = r.has('f') || s.flags.fsync
	o.Preserve = r.has('p') || r.has('P') || s.flags.preserve
	return job{options: o, recursive: r.has('r') || r.has('R') || s.flags.recursive}
}

func (s *Shell) reget(ctx context.Context, r *request) error {
	r.flags['a'] = true
	return s.get(ctx, r)
}

func (s *Shell) reput(ctx context.Context, r *request) error {
	r.flags['a'] = true
	return s.put(ctx, r)
}

// operands splits the operands of a copy: the last of several is the target, unless it is a
// pattern, which only a source can be.
func operands(r *request) (sources []word, target *word) {
	n := len(r.args)
	if n < 2 || r.args[n-1].isPattern() {
		return r.args, nil
	}
	return r.args[:n-1], &r.args[n-1]
}

// A copying is what differs between get, put and copy.
type copying struct {
	names  func(host pool.Host, w word) ([]string, error) // what an operand stands for
	target string
	isDir  func(host pool.Host) (bool, error) // reports whether target is a directory
	one    func(host pool.Host, name string, several bool) error
}

// copyAll copies everything that the operands stand for, one after another.
func (s *Shell) copyAll(ctx context.Context, sources []word, c copying) error {
	host, err := s.session.connect(ctx)
	if err != nil {
		return err
	}
	var failed failures
	var names []string
	for _, w := range sources {
		found, err := c.names(host, w)
		s.note(&failed, err)
		names = append(names, found...)
	}
	several := len(names) > 1
	if several {
		if is, err := c.isDir(host); err != nil {
			return err
		} else if !is {
			return fmt.Errorf("cannot copy several files to %s: it is not a directory", c.target)
		}
	}
	for _, name := range names {
		if ctx.Err() != nil {
			break
		}
		if host, err = s.session.connect(ctx); err != nil {
			return err
		}
		failed.note(c.one(host, name, several))
	}
	return failed.err()
}

func (s *Shell) get(ctx context.Context, r *request) error {
	if err := r.want(1, many); err != nil {
		return err
	}
	sources, to := operands(r)
	target := "."
	if to != nil {
		target = s.localTilde(*to)
	}
	j := s.job(r)
	return s.copyAll(ctx, sources, copying{
		names: func(host pool.Host, w word) ([]string, error) {
			return s.readableNames(ctx, host, w)
		},
		target: target,
		isDir: func(pool.Host) (bool, error) {
			info, err := os.Stat(target)
			return err == nil && info.IsDir(), nil
		},
		one: func(host pool.Host, name string, _ bool) error {
			return s.transfer(ctx, j, transfer.Local(target), transfer.Remote(host, name))
		},
	})
}

func (s *Shell) put(ctx context.Context, r *request) error {
	if err := r.want(1, many); err != nil {
		return err
	}
	sources, to := operands(r)
	target := s.session.dir
	if to != nil {
		target = s.session.abs(s.tilde(*to))
	}
	j := s.job(r)
	return s.copyAll(ctx, sources, copying{
		names:  func(_ pool.Host, w word) ([]string, error) { return s.localNames(w) },
		target: target,
		isDir:  func(host pool.Host) (bool, error) { return isDirectory(ctx, host, target) },
		one: func(host pool.Host, name string, several bool) error {
			to := target
			if several && !j.recursive { // it is known to be a directory
				to = path.Join(target, filepath.Base(name))
			}
			return s.transfer(ctx, j, transfer.Remote(host, to), transfer.Local(name))
		},
	})
}

// copy copies files on the host. If the server can do the copying, no data passes through this
// machine.
func (s *Shell) copy(ctx context.Context, r *request) error {
	if err := r.want(2, many); err != nil {
		return err
	}
	last := len(r.args) - 1
	target := s.session.abs(s.tilde(r.args[last]))
	j := s.job(r)
	return s.copyAll(ctx, r.args[:last], copying{
		names: func(host pool.Host, w word) ([]string, error) {
			return s.readableNames(ctx, host, w)
		},
		target: target,
		isDir:  func(host pool.Host) (bool, error) { return isDirectory(ctx, host, target) },
		one: func(host pool.Host, name string, _ bool) error {
			return s.transfer(ctx, j, transfer.Remote(host, target), transfer.Remote(host, name))
		},
	})
}

// transfer copies one file or tree, and reports like cp. Errors have been reported when it returns.
func (s *Shell) transfer(ctx context.Context, j job, dst, src transfer.Endpoint) error {
	show := s.flags.Report
	show.NoProgress = show.NoProgress || !s.meter
	reporter := report.New(s.app, &show, report.Look{Recursive: j.recursive})
	j.options.Events = reporter.Event
	if !j.recursive {
		_, err := transfer.Copy(ctx, dst, src, j.options)
		var failed *transfer.Error
		if errors.As(err, &failed) && failed.Resumable && !show.Quiet {
			s.app.Console.Say("reget and reput continue such copies")
		}
		return told(err)
	}
	tree := s.flags.TreeOptions()
	tree.Options = j.options
	_, err := transfer.CopyTree(ctx, dst, src, tree)
	return told(err)
}

// told marks an error as reported.
func told(err error) error {
	if err == nil {
		return nil
	}
	return &toldError{err}
}

// A toldError is an error that has been reported.
type toldError struct{ err error }

func (e *toldError) Error() string { return e.err.Error() }
func (e *toldError) Unwrap() error { return e.err }

// failures keeps the first of several errors.
type failures struct{ first error }

func (f *failures) note(err error) {
	if f.first == nil {
		f.first = err
	}
}

func (f *failures) err() error { return f.first }

// note reports an error and keeps it.
func (s *Shell) note(f *failures, err error) {
	if err != nil {
		s.show(err)
		f.note(told(err))
	}
}

// show reports an error, unless that was done before.
func (s *Shell) show(err error) {
	var done *toldError
	var exit *ui.ExitError
	if err != nil && !errors.As(err, &done) && !errors.As(err, &exit) {
		s.app.Console.Say(err.Error())
	}
}
