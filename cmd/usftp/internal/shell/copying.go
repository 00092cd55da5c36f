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

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/cmd/usftp/internal/connect"
	"github.com/usftp/usftp/cmd/usftp/internal/inflight"
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

// job reads the flags. -P and -R are sftp's older forms; reget and reput have -a.
func (s *shell) job(r *request) job {
	o := s.flags.TransferOptions()
	o.Journal = opt.Journal()
	name, resumes := strings.CutPrefix(r.command.names[0], "re")
	o.Resume = resumes || r.has('a') || s.flags.resume
	o.Sync = r.has('f') || s.flags.fsync
	o.Preserve = r.has('p') || r.has('P') || s.flags.preserve
	again := ""
	switch {
	case s.single:
	case name == "cp":
		again = "cp in usftp shell --resume"
	default:
		again = "re" + name
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

// operands splits the operands of a copy: the last of several is the target, unless it is a
// pattern, which only a source can be. In a batch file the second of two is the target even so, as
// in sftp: a directory may be called [2026].
func (s *shell) operands(r *request) (sources []word, target *word) {
	n := len(r.args)
	if n < 2 || r.args[n-1].isPattern() && (n > 2 || s.quoting == shQuoting) {
		return r.args, nil
	}
	return r.args[:n-1], &r.args[n-1]
}

// A copying is one get, put or copy.
type copying struct {
	job
	names      func(w word) ([]string, error) // the names that an operand stands for
	target     string
	here, near bool                 // the sources, the target are on this machine
	isDir      func() (bool, error) // reports whether target is a directory
	ends       func(host pool.Host, name string, several bool) (dst, src transfer.Endpoint)
}

// copyAll copies all files that the operands stand for, small ones beside each other.
func (s *shell) copyAll(ctx context.Context, r *request, sources []word, c *copying) error {
	names, failed := s.expandAll(sources, c.names)
	several := len(names) > 1
	if several {
		if is, err := c.isDir(); err != nil {
			return err
		} else if !is {
			return fmt.Errorf("cannot copy several files to %s: not a directory", c.target)
		}
	}
	most := 1
	if several && inflight.Suits(&c.options) {
		most = inflight.AtOnce(r.host.Client)
	}
	all := &copies{shell: s, copying: c, ctx: ctx, several: several, failed: failed,
		taken: make(connect.Taken[string])}
	inflight.CopyAll(ctx, most, s.listener(&c.job), names, all.look, all.file)
	return all.failed
}

// copies are the files of a copying.
type copies struct {
	*shell
	*copying
	ctx     context.Context
	several bool
	taken   connect.Taken[string]
	failed  error // of the first file that failed
	lost    bool  // the host cannot be reached any more
}

// client returns the client of the session, nil for this machine or if it cannot be reached.
func (c *copies) client(local bool) *usftp.Client {
	host, ok := c.host()
	if local || !ok {
		return nil
	}
	return host.Client.WithContext(c.ctx)
}

func (c *copies) host() (host pool.Host, ok bool) {
	if c.lost {
		return host, false
	}
	host, err := c.session.connect(c.ctx)
	if err != nil {
		c.lost, c.failed = true, err // which the caller reports
	}
	return host, err == nil
}

// look looks at sources and their targets before they are copied.
func (c *copies) look(names []string) []int64 {
	from := inflight.End{Client: c.client(c.here), Names: names}
	to := inflight.End{Client: c.client(c.near)}
	below := connect.Below
	if c.near {
		below = connect.BelowHere
	}
	for _, name := range names {
		to.Names = append(to.Names, below(c.target, filepath.Base(name)))
	}
	if c.lost {
		return []int64{-1}
	}
	return inflight.Look(from, to)
}

// file returns the copy of one file.
func (c *copies) file(name string) inflight.Copy {
	base := filepath.Base(name)
	ended := func(err error) bool {
		if err == nil {
			c.taken.Add(base, name)
		}
		c.failed = cmp.Or(c.failed, err)
		return err == nil
	}
	// begin returns the function that copies it, or nil if the host cannot be reached.
	begin := func(again, beside bool) func(events func(transfer.Event)) error {
		host, ok := c.host()
		if !ok {
			return nil
		}
		dst, src := c.ends(host, name, c.several)
		return func(events func(transfer.Event)) error {
			job := c.into(name)
			o := &job.options
			if c.here && c.several && !c.recursive { // ends has added the name
				o.NoTargetDirectory = true
			}
			o.Resume = o.Resume || again
			if o.Events = events; beside {
				*o = inflight.Options(*o, events)
			}
			return c.transfer(c.ctx, job, dst, src)
		}
	}
	return inflight.Copy{Name: base,
		Check: func() bool { return c.isFree(name) },
		Alone: func(events func(transfer.Event), again bool) bool {
			run := begin(again, false)
			return run != nil && ended(run(events))
		},
		Beside: func(again bool) func(events func(transfer.Event)) error {
			return begin(again, true)
		},
		Ended: func(err error) { ended(err) }}
}

// isFree reports whether no other file was copied under the name of this one. It reports one that
// was.
func (c *copies) isFree(name string) bool {
	base := filepath.Base(name)
	first, ok := c.taken.Exactly(base)
	if ok = ok && first != name && !c.recursive; !ok { // directories of the same name become one
		client := c.client(c.near)
		if !c.near && client == nil {
			return false
		}
		first, ok = c.taken.Spelled(base, client, c.target)
	}
	if ok {
		c.failed = cmp.Or(c.failed, c.report(fmt.Errorf(
			"cannot copy %s to %s: %s was copied there under the same name",
			ui.Printable(name), ui.Printable(c.target), ui.Printable(first))))
	}
	return !ok
}

func (s *shell) get(ctx context.Context, r *request) error {
	sources, to := s.operands(r)
	target := "."
	if to != nil {
		target = s.localTilde(*to)
	}
	j := s.job(r)
	return s.copyAll(ctx, r, sources, &copying{
		job:    j,
		names:  s.readable(ctx, r),
		target: target,
		near:   true,
		isDir: func() (bool, error) {
			info, err := os.Stat(target)
			return err == nil && info.IsDir(), nil
		},
		ends: func(host pool.Host, name string, several bool) (dst, src transfer.Endpoint) {
			to := target
			if several && !j.recursive { // it is known to be a directory
				to = connect.Within(target)
			}
			return transfer.Local(to), transfer.Remote(host, name)
		},
	})
}

func (s *shell) put(ctx context.Context, r *request) error {
	sources, to := s.operands(r)
	target := strings.TrimSuffix(s.session.dir, "/") + "/"
	if to != nil {
		target = s.session.abs(s.tilde(*to))
	}
	j := s.job(r)
	return s.copyAll(ctx, r, sources, &copying{
		job:    j,
		names:  s.localNames,
		target: target,
		here:   true,
		isDir:  func() (bool, error) { return isDirectory(ctx, r.host, target) },
		ends: func(host pool.Host, name string, several bool) (dst, src transfer.Endpoint) {
			to := target
			if several && !j.recursive { // it is known to be a directory
				to = connect.Below(target, filepath.Base(name))
			}
			return transfer.Remote(host, to), transfer.Local(name)
		},
	})
}

// copy copies files on the host. If the server can do the copying, no data passes through this
// machine.
func (s *shell) copy(ctx context.Context, r *request) error {
	last := len(r.args) - 1
	target := s.session.abs(s.tilde(r.args[last]))
	return s.copyAll(ctx, r, r.args[:last], &copying{
		job:    s.job(r),
		names:  s.readable(ctx, r),
		target: target,
		isDir:  func() (bool, error) { return isDirectory(ctx, r.host, target) },
		ends: func(host pool.Host, name string, _ bool) (dst, src transfer.Endpoint) {
			return transfer.Remote(host, target), transfer.Remote(host, name)
		},
	})
}

// transfer copies one file or tree. Its events have reported any error that it returns.
func (s *shell) transfer(ctx context.Context, j job, dst, src transfer.Endpoint) error {
	if !j.recursive {
		_, err := transfer.Copy(ctx, dst, src, j.options)
		return reported(err)
	}
	tree := s.flags.TreeOptions()
	tree.Options = j.options
	_, err := transfer.CopyTree(ctx, dst, src, tree)
	return reported(err)
}

// listener returns a function that reports events like cp.
func (s *shell) listener(j *job) func(transfer.Event) {
	show := s.flags.Report
	show.NoProgress = show.NoProgress || !s.meter
	reporter := report.New(s.app, &show, report.Look{Recursive: j.recursive})
	if j.again == "" {
		return reporter.Event
	}
	// Not the option alone, which may be the name of a file.
	hints := strings.NewReplacer(
		"the same call with transfer.Options.Resume continues", j.again+" continues",
		"(transfer.Options.Resume continues", "("+j.again+" continues")
	return func(e transfer.Event) {
		e.Message = hints.Replace(e.Message)
		reporter.Event(e)
	}
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
	if err != nil && !errors.As(err, new(*reportedError)) && !errors.As(err, new(*ui.ExitError)) &&
		!ui.ReaderGone(err) {
		s.app.Console.Say(err.Error())
	}
}
