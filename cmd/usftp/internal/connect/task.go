package connect

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/usftp/usftp/cmd/usftp/internal/history"
	"github.com/usftp/usftp/cmd/usftp/internal/report"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/transfer"
)

// A Task is one run of a command that works on hosts: its connections, its report, and its exit
// code.
type Task struct {
	*ui.App
	Ctx    context.Context
	Hosts  *hosts
	Report report.Reporter
	Code   int // of the first failure

	Files int64 // copied
	Bytes int64 // copied, and kept of files that were cut off
	Kept  int64 // bytes of files that the target already had

	entry *history.Entry // nil if the run will not be in the history
}

func NewTask(ctx context.Context, a *ui.App, config pool.ConnectConfig,
	report report.Reporter) *Task {
	return &Task{App: a, Ctx: ctx, Hosts: newHosts(config, a.Turn), Report: report}
}

// Remember puts the run into the history when it ends. manifest is the list that the run writes, ""
// if there is none.
func (t *Task) Remember(command string, sources []Place, target Place, manifest string) {
	if history.Off() {
		return
	}
	t.entry = &history.Entry{Time: time.Now(), Command: command, Target: target.remembered()}
	for _, s := range sources {
		t.entry.Sources = append(t.entry.Sources, s.remembered())
	}
	if manifest != "" {
		t.entry.Manifest = Place{Typed: manifest}.remembered()
	}
}

// remember writes the history, best effort.
func (t *Task) remember() {
	if e := t.entry; e != nil {
		e.Files, e.Bytes, e.Code, e.Elapsed = t.Files, t.Bytes, t.Code, time.Since(e.Time)
		e.Write()
	}
}

// End ends the report and the connections. Its error has the exit code if that is not 0.
func (t *Task) End() error {
	t.Report.End(t.Code)
	t.remember()
	t.Hosts.Close()
	if d := t.Hosts.Config.Dial; d != nil && d.Compression != nil && t.Code == ui.ExitOK {
		if advice := d.Compression.Advice(); advice != "" {
			t.Console.Say(advice)
		}
	}
	if t.Code != ui.ExitOK {
		return &ui.ExitError{Code: t.Code}
	}
	return nil
}

// Event counts the copied files, and reports the event.
func (t *Task) Event(e transfer.Event) {
	switch {
	case e.Kind == transfer.Done && !e.Tree:
		t.Files++
		t.Bytes += e.Bytes
	case e.Kind == transfer.Failed && !e.Tree:
		if failed, ok := errors.AsType[*transfer.Error](e.Err); ok && failed.Resumable {
			t.Bytes += e.Bytes
		}
	case e.Kind == transfer.Kept && !e.Tree:
		t.Kept += max(0, e.Size)
	case e.Kind == transfer.Ended && e.Totals != nil:
		t.Files += e.Totals.Files
		t.Bytes += e.Totals.Bytes
		t.Kept += e.Totals.KeptBytes
	}
	if t.entry != nil && e.Kind == transfer.Ended && e.Totals != nil {
		t.entry.Failed += e.Totals.Failed
		t.entry.Deleted += e.Totals.Deleted
	} else if t.entry != nil && e.Kind == transfer.Failed && !e.Tree {
		t.entry.Failed++
	}
	t.Report.Event(e)
}

// Fail reports a failure outside any copy.
func (t *Task) Fail(err error) {
	t.Note(err)
	if !errors.As(err, new(*ui.OutputError)) {
		t.Report.Failed(err)
	}
}

// Note keeps the code of the first failure; a signal's code takes precedence.
func (t *Task) Note(err error) {
	switch {
	case errors.Is(err, transfer.ErrTreeTooLarge):
		t.Console.Say("use --max-entries to allow more, or 0 for no limit")
	case errors.Is(err, transfer.ErrTreeTooDeep):
		t.Console.Say("use --max-depth to allow more, or 0 for no limit")
	}
	if signal := ui.Interrupted(t.Ctx); signal != nil {
		t.Code = signal.Code()
	} else if t.Code == ui.ExitOK {
		t.Code = ui.CodeOf(err)
	}
}

// Host connects to the host of a place. It reports an error once for each host.
func (t *Task) Host(p Place) (pool.Host, error) {
	host := t.Hosts.Get(t.Ctx, p.Target)
	if host.Err != nil && !host.reported {
		host.reported = true
		t.Fail(host.Err)
	}
	return host.Host, host.Err
}

// ConnectBoth logs in to the hosts of a copy between hosts at the same time, so that it takes only
// as long as the slower login.
func (t *Task) ConnectBoth(src, dst Place) {
	if src.Remote && dst.Remote {
		t.Hosts.ConnectAll(t.Ctx, src.Target, dst.Target)
	}
}

// PlanFirstRequest sends the first request with the login, if only one host is involved. With read,
// a source is a file to be read.
func (t *Task) PlanFirstRequest(src, dst Place, read bool) {
	p := dst
	if src.Remote {
		p = src
	}
	switch {
	case src.Remote == dst.Remote, strings.HasPrefix(p.Target.Path, "~"):
	case src.Remote && read:
		t.Hosts.Config.Source = p.Path()
	default:
		t.Hosts.Config.Look = p.Path()
	}
}

// An Opener makes the endpoint for a file at a place. host is the place's host, if it is remote.
type Opener func(p Place, host pool.Host, path string) transfer.Endpoint

// Open connects to the host of a place and opens it. It reports a failure to connect.
func (t *Task) Open(p Place, open Opener) (transfer.Endpoint, error) {
	t.Home(&p)
	var host pool.Host
	if p.Remote {
		var err error
		if host, err = t.Host(p); err != nil {
			return transfer.Endpoint{}, err
		}
	}
	return open(p, host, p.Path()), nil
}

// Open implements the usual Opener.
func Open(p Place, host pool.Host, path string) transfer.Endpoint {
	if p.Remote {
		return transfer.Remote(host, path)
	}
	return transfer.Local(path)
}

// Find describes the file that a path at a place leads to, if the host tells: an error for which
// private.Untold holds means nothing. It reports a failure to connect.
func (t *Task) Find(p Place, path string) (fs.FileInfo, error) {
	if !p.Remote {
		return os.Stat(path)
	}
	host, err := t.Host(p)
	if err != nil {
		return nil, err
	}
	return private.OfClient(host.Client.WithContext(t.Ctx)).Find(path)
}

// Home replaces a leading ~user of a remote path by that user's home directory, as scp does. It
// returns the user, and the length of the home directory in the path, which was not typed. If the
// server does not know the user, the path is unchanged and home is 0.
func (t *Task) Home(p *Place) (user string, home int) {
	if !p.Remote || !strings.HasPrefix(p.Target.Path, "~") {
		return "", 0
	}
	host, err := t.Host(*p)
	if err != nil {
		return "", 0
	}
	user, below := p.Target.Path, ""
	if i := strings.IndexByte(user, '/'); i >= 0 {
		user, below = user[:i], user[i:]
	}
	if user == "~." || user == "~.." {
		return "", 0 // unsuitable as the copy's name
	}
	dir, err := host.Client.WithContext(t.Ctx).ExpandPath(user)
	if err != nil || dir == "" {
		return "", 0
	}
	p.Target.Path = dir + below
	return user[1:], len(dir)
}
