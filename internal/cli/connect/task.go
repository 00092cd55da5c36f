package connect

import (
	"context"
	"errors"
	"strings"

	"github.com/usftp/usftp/internal/cli/report"
	"github.com/usftp/usftp/internal/cli/ui"
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
}

func NewTask(ctx context.Context, a *ui.App, config pool.ConnectConfig,
	report report.Reporter) *Task {
	return &Task{App: a, Ctx: ctx, Hosts: newHosts(config, a.Turn), Report: report}
}

// Fail reports a failure outside any copy.
func (t *Task) Fail(err error) {
	t.Note(err)
	if !errors.As(err, new(*ui.OutputError)) {
		t.Report.Failed(err)
	}
}

// Note keeps the code of the first failure; a signal's takes precedence.
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
	host, told := t.Hosts.Get(t.Ctx, p.Target)
	if host.Err != nil && !told {
		t.Fail(host.Err)
	}
	return host.Host, host.Err
}

// Open returns the endpoint for a file at a place. host is the place's, if it is remote.
func Open(p Place, host pool.Host, path string) transfer.Endpoint {
	if p.Remote {
		return transfer.Remote(host, path)
	}
	return transfer.Local(path)
}

// AtHome returns a place with a leading ~user replaced by that user's home directory, as scp does.
func (t *Task) AtHome(p Place) Place {
	t.Home(&p)
	return p
}

// Home replaces a leading ~user of a remote path by that user's home directory. It returns the user
// and what was typed after it, including the slash. If the server does not know the user, the path
// is unchanged and ok is false.
func (t *Task) Home(p *Place) (user, below string, ok bool) {
	if !p.Remote || !strings.HasPrefix(p.Target.Path, "~") {
		return "", "", false
	}
	host, told := t.Hosts.Get(t.Ctx, p.Target)
	if host.Err != nil {
		if !told {
			t.Fail(host.Err)
		}
		return "", "", false
	}
	user = p.Target.Path
	if i := strings.IndexByte(user, '/'); i >= 0 {
		user, below = user[:i], user[i:]
	}
	if user == "~." || user == "~.." {
		return "", "", false // unsuitable as the copy's name
	}
	home, err := host.Client.WithContext(t.Ctx).ExpandPath(user)
	if err != nil {
		return "", "", false
	}
	p.Target.Path = home + below
	return user[1:], below, true
}
