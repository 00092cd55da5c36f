package report

import (
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/usftp/usftp/internal/cli/ui"
	"github.com/usftp/usftp/transfer"
)

// eventVersion is that of the JSON events. It changes when a program that reads them could break:
// when a field goes or changes its meaning. Fields and kinds may be added without.
const eventVersion = 1

// An eventLine is one line of --json.
type eventLine struct {
	Version int `json:"v"`
	transfer.Event
}

// An errorLine is a failure outside of any file: a host that cannot be reached.
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
	Checked int           `json:"checked,omitempty"` // of check: those that are what the list says
	Failed  int           `json:"failed"`
	Bytes   int64         `json:"bytes"`
}

// An eventWriter tells a program what happens. People still get the errors, on standard error.
type eventWriter struct {
	mu      sync.Mutex
	w       io.Writer // which keeps its own errors
	console *ui.Console
	last    exitLine
}

func newEventWriter(w io.Writer, c *ui.Console) *eventWriter { return &eventWriter{w: w, console: c} }

func (w *eventWriter) Event(e transfer.Event) {
	switch {
	case e.Kind == transfer.Done && e.Direction == transfer.Checking:
		w.last.Checked++
		w.last.Bytes += e.Bytes
	case e.Kind == transfer.Done:
		w.last.Copied++
		w.last.Bytes += e.Bytes
	case e.Kind == transfer.Ended && untold(e):
		w.console.Say(e.Message)
	case e.Kind == transfer.Failed:
		w.last.Failed++
		w.console.Say(e.Message)
	}
	w.write(eventLine{eventVersion, e})
}

func (w *eventWriter) Failed(err error) {
	w.last.Failed++
	w.console.Say(err.Error())
	w.write(errorLine{eventVersion, "error", time.Now(), err.Error()})
}

func (w *eventWriter) End(code int) {
	w.last.Version, w.last.Kind, w.last.Time, w.last.Code = eventVersion, "exit", time.Now(), code
	w.write(w.last)
}

func (w *eventWriter) write(line any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text, err := json.Marshal(line)
	if err != nil { // which no event of ours can do
		w.console.Say("an event cannot be written as JSON: " + err.Error())
		return
	}
	w.w.Write(append(ui.EscapeC1(text), '\n'))
}
