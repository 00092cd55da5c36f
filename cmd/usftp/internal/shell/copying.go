package shell

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/usftp/usftp/cmd/usftp/internal/connect"
	"github.com/usftp/usftp/cmd/usftp/internal/opt"
	"github.com/usftp/usftp/cmd/usftp/internal/report"
	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/transfer"
)

// A job holds the choices made by the flags of get and put.
type job struct {
	options   transfer.Options
	recursive bool
	again     string // the command that continues it, "" for the same one with --resume
}

// job reads the flags. -P and -R are sftp's older forms.
func (s *shell) job(r *request) job {
	o := s.flags.TransferOptions()
	o.Journal = opt.Journal()
	o.Resume = r.has('a') || s.flags.resume
	o.Sync = r.has('f') || s.flags.fsync
	o.Preserve = r.has('p') || r.has('P') || s.flags.preserve
	again := ""
	switch name := r.command.names[0]; {
	case s.single:
	case name == "cp":
		again = "cp in usftp shell --resume"
	default:
		again = "re" + strings.TrimPrefix(name, "re")
	}
	return job{options: o, recursive: r.has('r') || r.has('R') || s.flags.recursive, again: again}
}

// into returns the job for one source. For ".." the contents are copied, as by OpenSSH 10.5's sftp
// and as for ".": neither is a name for the copy.
func (j job) into(source string) job {
	if path.Base(filepath.ToSlash(source)) == ".." {
		j.options.NoTargetDirectory = true
	}
	return j
}

func (s *shell) reget(ctx context.Context, r *request) error {
	r.flags['a'] = true
	return s.get(ctx, r)
}

func (s *shell) reput(ctx context.Context, r *request) error {
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

// A copying holds the differences between get, put and copy.
type copying struct {
	names  func(w word) ([]string, error) // the names that an operand stands for
	target string
	near   bool                 // target is on this machine
	isDir  func() (bool, error) // reports whether target is a directory
	one    func(host pool.Host, name string, several bool) error
}

// copyAll copies all files that the operands stand for, one after another.
func (s *shell) copyAll(ctx context.Context, r *request, sources []word, c copying) error {
	names, failed := s.expandAll(sources, c.names)
	several := len(names) > 1
	if several {
		if is, err := c.isDir(); err != nil {
			return err
		} else if !is {
			return fmt.Errorf("cannot copy several files to %s: not a directory", c.target)
		}
	}
	merges := s.job(r).recursive // directories of the same name become one
	taken := make(connect.Taken[string])
	for _, name := range names {
		if ctx.Err() != nil {
			break
		}
		base := filepath.Base(name)
		first, ok := taken.Exactly(base)
		host, err := s.session.connect(ctx)
		if err != nil {
			return err
		}
		client := host.Client
		if c.near {
			client = nil
		}
		if ok = ok && first != name && !merges; !ok {
			first, ok = taken.Spelled(base, client, c.target)
		}
		if ok {
			failed = cmp.Or(failed, s.report(fmt.Errorf(
				"cannot copy %s to %s: %s was copied there under the same name",
				ui.Printable(name), ui.Printable(c.target), ui.Printable(first))))
			continue
		}
		err = c.one(host, name, several)
		if err == nil {
			taken.Add(base, name)
		}
		failed = cmp.Or(failed, err)
	}
	return failed
}

func (s *shell) get(ctx context.Context, r *request) error {
	sources, to := operands(r)
	target := "."
	if to != nil {
		target = s.localTilde(*to)
	}
	j := s.job(r)
	return s.copyAll(ctx, r, sources, copying{
		names:  s.readable(ctx, r),
		target: target,
		near:   true,
		isDir: func() (bool, error) {
			info, err := os.Stat(target)
			return err == nil && info.IsDir(), nil
		},
		one: func(host pool.Host, name string, _ bool) error {
			return s.transfer(ctx, j.into(name), transfer.Local(target),
				transfer.Remote(host, name))
		},
	})
}

func (s *shell) put(ctx context.Context, r *request) error {
	sources, to := operands(r)
	target := strings.TrimSuffix(s.session.dir, "/") + "/"
	if to != nil {
		target = s.session.abs(s.tilde(*to))
	}
	j := s.job(r)
	return s.copyAll(ctx, r, sources, copying{
		names:  s.localNames,
		target: target,
		isDir:  func() (bool, error) { return isDirectory(ctx, r.host, target) },
		one: func(host pool.Host, name string, several bool) error {
			to := target
			if several && !j.recursive { // it is known to be a directory
				to = connect.Below(target, filepath.Base(name))
			}
			return s.transfer(ctx, j.into(name), transfer.Remote(host, to), transfer.Local(name))
		},
	})
}

// copy copies files on the host. If the server can do the copying, no data passes through this
// machine.
func (s *shell) copy(ctx context.Context, r *request) error {
	last := len(r.args) - 1
	target := s.session.abs(s.tilde(r.args[last]))
	j := s.job(r)
	return s.copyAll(ctx, r, r.args[:last], copying{
		names:  s.readable(ctx, r),
		target: target,
		isDir:  func() (bool, error) { return isDirectory(ctx, r.host, target) },
		one: func(host pool.Host, name string, _ bool) error {
			return s.transfer(ctx, j, transfer.Remote(host, target), transfer.Remote(host, name))
		},
	})
}

// transfer copies one file or tree, and reports like cp. It has reported any error that it returns.
func (s *shell) transfer(ctx context.Context, j job, dst, src transfer.Endpoint) error {
	show := s.flags.Report
	show.NoProgress = show.NoProgress || !s.meter
	reporter := report.New(s.app, &show, report.Look{Recursive: j.recursive})
	j.options.Events = reporter.Event
	if j.again != "" {
		// Not the option alone, which may be the name of a file.
		hints := strings.NewReplacer(
			"the same call with transfer.Options.Resume continues", j.again+" continues",
			"(transfer.Options.Resume continues", "("+j.again+" continues")
		j.options.Events = func(e transfer.Event) {
			e.Message = hints.Replace(e.Message)
			reporter.Event(e)
		}
	}
	if !j.recursive {
		_, err := transfer.Copy(ctx, dst, src, j.options)
		return reported(err)
	}
	tree := s.flags.TreeOptions()
	tree.Options = j.options
	_, err := transfer.CopyTree(ctx, dst, src, tree)
	return reported(err)
}

// reported marks an error as reported.
func reported(err error) error {
	if err == nil {
		return nil
	}
	return &reportedError{err}
}

// A reportedError is an error already reported.
type reportedError struct{ err error }

func (e *reportedError) Error() string { return e.err.Error() }
func (e *reportedError) Unwrap() error { return e.err }

// report shows an error, and marks it as reported.
func (s *shell) report(err error) error {
	s.show(err)
	return reported(err)
}

// show reports an error, unless it was reported before.
func (s *shell) show(err error) {
	if err != nil && !errors.As(err, new(*reportedError)) && !errors.As(err, new(*ui.ExitError)) {
		s.app.Console.Say(err.Error())
	}
}
