package hosts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/cmd/usftp/internal/connect"
	"github.com/usftp/usftp/cmd/usftp/internal/opt"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/internal/ui"
)

// A Run is one run of a verb on several hosts.
type Run struct {
	Hosts  []Host
	DryRun bool // it shows nothing about a later run, and is not recorded

	verb   string
	flags  *Flags
	report *opt.Report
	app    *ui.App
	record record
}

// Result is the outcome for one host. Files and Bytes count the copied files.
type Result struct {
	Files, Bytes int64
	Resumable    bool // --resume would continue the rest

	code    int
	elapsed time.Duration
	skipped bool // it was not started
}

// New reads the list of hosts. operands are the verb's, which identify the run.
func (f *Flags) New(a *ui.App, report *opt.Report, verb string, operands []string) (*Run, error) {
	hosts, err := f.load(a.Stdin)
	if err != nil {
		return nil, err
	}
	r := &Run{Hosts: hosts, verb: verb, flags: f, report: report, app: a,
		record: newRecord(verb, f, operands)}
	if f.retryFailed {
		r.Hosts, err = r.record.failed(hosts)
	}
	return r, err
}

// Begin logs in to the host of a copy. A copy from the host goes to a directory of the host's name
// in dst, which is made unless this is a dry run. A failure has been reported.
func (h Host) Begin(t *connect.Task, src connect.Place, dst *connect.Place, dryRun bool) error {
	if dst.Remote {
		host, err := t.Host(*dst)
		if err == nil {
			go startSmall(t.Ctx, host.Client)
		}
		return err
	}
	if _, err := t.Host(src); err != nil {
		return err
	}
	err := localfs.CheckReserved(h.Label)
	if err != nil {
		t.Fail(fmt.Errorf("cannot make a directory called %s: %w; "+
			"ssh_config can give the host another name", ui.Printable(h.Label), err))
		return err
	}
	dst.Typed = connect.BelowHere(dst.Typed, h.Label)
	if dryRun {
		return nil
	}
	if err = os.MkdirAll(dst.Typed, 0o777); err != nil {
		t.Fail(fmt.Errorf("cannot make the directory for the host: %w", err))
	}
	return err
}

// shortTrip is the round trip below which a link holds next to nothing.
const shortTrip = 2 * time.Millisecond

// startSmall limits the data that uploads have in flight if they share this machine's processors
// and a short link: the amount for a long link would cost the hosts more time than the copy itself.
func startSmall(ctx context.Context, client *usftp.Client) {
	began := time.Now()
	if client.Ping(ctx) == nil && time.Since(began) < shortTrip {
		private.OfClient(client).StartSmall()
	}
}

// AtOnce returns how many hosts are worked on at once.
func (r *Run) AtOnce() int { return min(r.flags.parallel, len(r.Hosts)) }

// Connections returns a useful number of connections per host, as the hosts share the link.
func (r *Run) Connections() int { return max(1, 16/r.AtOnce()) }

// Each calls work for each host, with an App for it, and reports its error as the host's. Each
// returns nil if all went well on all hosts, otherwise the worst of their exit codes.
func (r *Run) Each(ctx context.Context,
	work func(ctx context.Context, a *ui.App, h Host) (Result, error)) error {
	board := r.app.NewBoard(r.report.JSON)
	moving := !r.report.Quiet && !r.report.NoProgress
	if moving {
		board.Show()
	}
	began := time.Now()
	results := make([]Result, len(r.Hosts))
	slots := make(chan struct{}, r.flags.parallel)
	var working sync.WaitGroup
	for i, h := range r.Hosts {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			results[i] = Result{code: ui.CodeOf(context.Cause(ctx)), skipped: true}
			continue
		}
		working.Go(func() {
			defer func() { <-slots }()
			results[i] = r.one(ctx, board, h, work)
		})
	}
	working.Wait()
	if moving {
		board.Hide()
	}
	return r.finish(results, time.Since(began))
}

// one runs the verb on one host.
func (r *Run) one(ctx context.Context, board *ui.Board, h Host,
	work func(ctx context.Context, a *ui.App, h Host) (Result, error)) Result {
	a := board.App(r.app, h.Label)
	began := time.Now()
	result, err := work(ctx, a, h)
	result.elapsed = time.Since(began)
	var exit *ui.ExitError
	switch {
	case errors.As(err, &exit):
		result.code = exit.Code
	case err != nil:
		result.code = ui.CodeOf(err)
		if result.code != ui.ExitOutputGone && ui.Interrupted(ctx) == nil {
			a.Console.Say(err.Error())
		}
	}
	a.Out.Close()
	if r.report.JSON {
		ui.WriteJSON(r.app.Out, hostLine{1, "host", h.Label, time.Now(), result.code, result.Files,
			result.Bytes, result.elapsed})
	}
	return result
}

// rank orders exit codes: a signal's ranks highest, then an unreachable host's, then any other
// failure's, and last the code for files that vanished during a sync.
func rank(code int) int {
	switch {
	case code == ui.ExitOK:
		return 0
	case code == ui.ExitVanished:
		return 1
	case code == ui.ExitNoHost:
		return 3
	case code > 128:
		return 4
	}
	return 2
}

// finish records the hosts that have failed, prints the summary, and returns the worst code.
func (r *Run) finish(results []Result, elapsed time.Duration) error {
	code, resumable := ui.ExitOK, false
	var failed []string
	total := totalLine{Version: 1, Kind: "hosts", Hosts: len(results), Elapsed: elapsed}
	for i, result := range results {
		if rank(result.code) > rank(code) {
			code = result.code
		}
		resumable = resumable || result.Resumable
		if result.code != ui.ExitOK {
			failed = append(failed, r.Hosts[i].Label)
		}
		total.Files += result.Files
		total.Bytes += result.Bytes
	}
	var err error
	if !r.DryRun {
		err = r.record.write(failed)
	}
	if err != nil {
		r.app.Console.Say("cannot record which hosts failed, for --retry-failed: " +
			ui.ReasonOf(err))
	}
	total.Code, total.Failed, total.Time = code, len(failed), time.Now()
	if r.report.JSON {
		ui.WriteJSON(r.app.Out, total)
	} else if r.report.Verbose > 0 ||
		!r.report.Quiet && (r.app.Console.Terminal() && total.Files > 0 || code != ui.ExitOK) {
		fmt.Fprint(r.app.Console, r.table(results, total))
	}
	if code == ui.ExitOK {
		return nil
	}
	if !r.report.Quiet {
		advice := ""
		if err == nil && !r.DryRun && r.record.name != "" { // it is recorded which they were
			flags := []string{"--retry-failed"}
			if resumable {
				flags = append(flags, "--resume")
			}
			advice = "; to run again on those: " + ui.CommandLine(r.app.Args, r.verb, flags...)
		}
		r.app.Console.Say(fmt.Sprintf("%d of %s failed%s", len(failed),
			ui.Count(int64(len(results)), "host", "hosts"), advice))
	}
	return &ui.ExitError{Code: code}
}

// hostLine is printed with --json when a host is done.
type hostLine struct {
	Version int           `json:"v"`
	Kind    string        `json:"kind"`
	On      string        `json:"on"`
	Time    time.Time     `json:"time"`
	Code    int           `json:"code"`
	Files   int64         `json:"files"`
	Bytes   int64         `json:"bytes"`
	Elapsed time.Duration `json:"elapsed_ns"`
}

// totalLine is the last line of --json.
type totalLine struct {
	Version int           `json:"v"`
	Kind    string        `json:"kind"`
	Time    time.Time     `json:"time"`
	Code    int           `json:"code"`
	Hosts   int           `json:"hosts"`
	Failed  int           `json:"failed"`
	Files   int64         `json:"files"`
	Bytes   int64         `json:"bytes"`
	Elapsed time.Duration `json:"elapsed_ns"`
}
