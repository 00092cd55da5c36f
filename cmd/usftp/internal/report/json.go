package report

import (
	"cmp"
	"io"
	"time"

	"github.com/usftp/usftp/checksum"
	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/transfer"
)

// eventVersion is the version of the JSON events. It changes if a program that reads them could
// break: when a field goes or changes its meaning. Adding fields and kinds does not change it.
const eventVersion = 1

// An eventLine is one line of --json.
type eventLine struct {
	Version int           `json:"v"`
	Kind    transfer.Kind `json:"kind"`
	Time    time.Time     `json:"time"`
	// the target's, else the source's
	Host       string `json:"host"`
	SourceHost string `json:"source_host,omitempty"` // if there are two hosts
	Direction  string `json:"direction"`
	Source     string `json:"source"`
	Target     string `json:"target"`
	Size       int64  `json:"size"`
	Bytes      int64  `json:"bytes"`
	Resumed    int64  `json:"resumed,omitempty"`
	// taken from an older version at the target instead of being sent
	Reused     int64                 `json:"reused,omitempty"`
	Elapsed    time.Duration         `json:"elapsed_ns,omitempty"`
	Paused     time.Duration         `json:"paused_ns,omitempty"`
	Finishing  bool                  `json:"finishing,omitempty"`
	Phase      transfer.Phase        `json:"phase,omitempty"`
	Checked    int64                 `json:"checked,omitempty"`
	Stalled    time.Duration         `json:"stalled_ns,omitempty"`
	Wait       time.Duration         `json:"wait_ns,omitempty"`
	Bottleneck transfer.Bottleneck   `json:"bottleneck,omitempty"`
	Message    string                `json:"message,omitempty"`
	Reason     transfer.Reason       `json:"reason,omitempty"`
	LeftBehind string                `json:"left_behind,omitempty"`
	Name       string                `json:"name,omitempty"`
	Hash       checksum.Hash         `json:"hash,omitzero"`
	Verified   transfer.Verification `json:"verified,omitempty"`
	Tree       bool                  `json:"tree,omitempty"`
	Totals     *totalsLine           `json:"totals,omitempty"`
}

// totalsLine are the totals of a tree.
type totalsLine struct {
	*transfer.Totals
	Elapsed    time.Duration       `json:"elapsed_ns"`
	Bottleneck transfer.Bottleneck `json:"bottleneck,omitempty"`
}

// An errorLine is a failure that concerns no file, such as an unreachable host.
type errorLine struct {
	Version int           `json:"v"`
	Kind    transfer.Kind `json:"kind"`
	Time    time.Time     `json:"time"`
	Message string        `json:"message"`
}

// An exitLine is the last line.
type exitLine struct {
	Version int           `json:"v"`
	Kind    transfer.Kind `json:"kind"`
	Time    time.Time     `json:"time"`
	Code    int           `json:"code"`
	Copied  int           `json:"copied"`
	Checked int           `json:"checked,omitempty"` // of check: files that match the list
	Failed  int           `json:"failed"`
	Bytes   int64         `json:"bytes"`
}

// An eventWriter reports to a program. Errors still go to standard error, too.
type eventWriter struct {
	out      io.Writer // keeps its own errors
	console  *ui.Console
	checking bool // nothing is copied
	last     exitLine
}

func (w *eventWriter) Event(e transfer.Event) {
	e.Message = Advice.Replace(e.Message)
	switch {
	case e.Kind == transfer.Done && w.checking:
		w.last.Checked++
		w.last.Bytes += e.Bytes
	case e.Kind == transfer.Done:
		w.last.Copied++
		w.last.Bytes += e.Bytes
	case e.Kind == transfer.Ended && unreported(e):
		w.console.Say(e.Message)
	case e.Kind == transfer.Failed:
		w.last.Failed++
		w.console.Say(e.Message)
	}
	line := eventLine{Version: eventVersion, Kind: e.Kind, Time: e.Time,
		Host: cmp.Or(e.TargetHost, e.SourceHost), Direction: w.direction(e), Source: e.Source,
		Target: e.Target, Size: e.Size, Bytes: e.Bytes, Resumed: e.Resumed, Reused: e.Reused,
		Elapsed: e.Elapsed, Paused: e.Paused, Finishing: e.Finishing, Phase: e.Phase,
		Checked: e.Checked, Stalled: e.Stalled, Wait: e.Wait, Bottleneck: e.Bottleneck,
		Message: e.Message, Reason: e.Reason, LeftBehind: e.LeftBehind,
		Name: e.Name, Hash: e.Hash, Verified: e.Verified, Tree: e.Tree}
	if e.TargetHost != "" {
		line.SourceHost = e.SourceHost
	}
	if e.Totals != nil {
		line.Totals = &totalsLine{e.Totals, e.Elapsed, e.Bottleneck}
	}
	ui.WriteJSON(w.out, line)
}

// direction names the direction of a copy.
func (w *eventWriter) direction(e transfer.Event) string {
	switch {
	case w.checking:
		return "check"
	case e.SourceHost != "" && e.TargetHost != "":
		return "relay"
	case e.SourceHost != "":
		return "download"
	case e.TargetHost != "":
		return "upload"
	}
	return "local"
}

func (w *eventWriter) Failed(err error) {
	w.last.Failed++
	message := Advice.Replace(err.Error())
	w.console.Say(message)
	ui.WriteJSON(w.out, errorLine{eventVersion, "error", time.Now(), message})
}

func (w *eventWriter) End(code int) {
	w.last.Version, w.last.Kind, w.last.Time, w.last.Code = eventVersion, "exit", time.Now(), code
	ui.WriteJSON(w.out, w.last)
}
