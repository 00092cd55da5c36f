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
	"github.com/usftp/usftp/transfer"
)

// A job is what the flags of get and put ask for.
type job struct {
	options   transfer.Options
	recursive bool
}

// job reads the flags. -P and -R are those that sftp had first.
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

// operands divides the operands of a copy: the last of several is the target, unless it is a
// pattern, which only a source can be.
func operands(r *request) (sources []word, target *word) {
	n := len(r.args)
	if n < 2 || r.args[n-1].isPattern() {
		return r.args, nil
	}
	return r.args[:n-1], &r.args[n-1]
}

func (s *Shell) get(ctx context.Context, r *request) error {
	if err := r.want(1, many); err != nil {
		return err
	}
	host, err := s.session.connect(ctx)
	if err != nil {
		return err
	}
	sources, to := operands(r)
	var failed failures
	var names []string
	for _, w := range sources {
		found, err := s.remoteNames(ctx, host, w)
		s.note(&failed, err)
		names = append(names, found...)
	}
	target := "."
	if to != nil {
		target = s.localTilde(*to)
	}
	if len(names) > 1 {
		if info, err := os.Stat(target); err != nil || !info.IsDir() {
			return fmt.Errorf("cannot copy several files to %s: it is not a directory", target)
		}
	}
	j := s.job(r)
	for _, name := range names {
		if ctx.Err() != nil {
			break
		}
		host, err := s.session.connect(ctx)
		if err != nil {
			return err
		}
		failed.note(s.transfer(ctx, j, transfer.Local(target), transfer.Remote(host, name)))
	}
	return failed.err()
}

func (s *Shell) put(ctx context.Context, r *request) error {
	if err := r.want(1, many); err != nil {
		return err
	}
	sources, to := operands(r)
	var failed failures
	var names []string
	for _, w := range sources {
		found, err := s.localNames(w)
		s.note(&failed, err)
		names = append(names, found...)
	}
	target := s.session.dir
	if to != nil {
		target = s.session.abs(s.tilde(*to))
	}
	if err := s.several(ctx, names, target); err != nil {
		return err
	}
	j := s.job(r)
	for _, name := range names {
		if ctx.Err() != nil {
			break
		}
		host, err := s.session.connect(ctx)
		if err != nil {
			return err
		}
		to := target
		if len(names) > 1 && !j.recursive { // that it is a directory is known
			to = path.Join(target, filepath.Base(name))
		}
		failed.note(s.transfer(ctx, j, transfer.Remote(host, to), transfer.Local(name)))
	}
	return failed.err()
}

// several makes sure that several files go into a directory.
func (s *Shell) several(ctx context.Context, names []string, target string) error {
	if len(names) < 2 {
		return nil
	}
	host, err := s.session.connect(ctx)
	if err != nil {
		return err
	}
	if is, err := isDirectory(ctx, host, target); err != nil {
		return err
	} else if !is {
		return fmt.Errorf("cannot copy several files to %s: it is not a directory", target)
	}
	return nil
}

// copy copies files on the host. If the server can, no data passes through this machine.
func (s *Shell) copy(ctx context.Context, r *request) error {
	if err := r.want(2, many); err != nil {
		return err
	}
	host, err := s.session.connect(ctx)
	if err != nil {
		return err
	}
	last := len(r.args) - 1
	target := s.session.abs(s.tilde(r.args[last]))
	var failed failures
	var names []string
	for _, w := range r.args[:last] {
		found, err := s.remoteNames(ctx, host, w)
		s.note(&failed, err)
		names = append(names, found...)
	}
	if err := s.several(ctx, names, target); err != nil {
		return err
	}
	j := s.job(r)
	for _, name := range names {
		if ctx.Err() != nil {
			break
		}
		failed.note(s.transfer(ctx, j, transfer.Remote(host, target), transfer.Remote(host, name)))
	}
	return failed.err()
}

// transfer copies one file or tree, and shows it as cp does. What went wrong has been told.
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

// told is the error of something whose message has been shown.
func told(err error) error {
	if err == nil {
		return nil
	}
	return &toldError{err}
}

// A toldError is one that the person knows.
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

// note shows an error and keeps it.
func (s *Shell) note(f *failures, err error) {
	if err != nil {
		s.show(err)
		f.note(told(err))
	}
}

// show tells a person of an error, unless that was done.
func (s *Shell) show(err error) {
	var done *toldError
	var exit *ui.ExitError
	if err != nil && !errors.As(err, &done) && !errors.As(err, &exit) {
		s.app.Console.Say(err.Error())
	}
}
