package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

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
	console *console
	last    exitLine
}

func newEventWriter(w io.Writer, c *console) *eventWriter { return &eventWriter{w: w, console: c} }

func (w *eventWriter) event(e transfer.Event) {
	switch {
	case e.Kind == transfer.Done && e.Direction == transfer.Checking:
		w.last.Checked++
		w.last.Bytes += e.Bytes
	case e.Kind == transfer.Done:
		w.last.Copied++
		w.last.Bytes += e.Bytes
	case e.Kind == transfer.Ended && untold(e):
		w.console.say(e.Message)
	case e.Kind == transfer.Failed:
		w.last.Failed++
		w.console.say(e.Message)
	}
	w.write(eventLine{eventVersion, e})
}

func (w *eventWriter) failed(err error) {
	w.last.Failed++
	w.console.say(err.Error())
	w.write(errorLine{eventVersion, "error", time.Now(), err.Error()})
}

func (w *eventWriter) end(code int) {
	w.last.Version, w.last.Kind, w.last.Time, w.last.Code = eventVersion, "exit", time.Now(), code
	w.write(w.last)
}

func (w *eventWriter) write(line any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text, err := json.Marshal(line)
	if err != nil { // which no event of ours can do
		w.console.say("an event cannot be written as JSON: " + err.Error())
		return
	}
	w.w.Write(append(escapeC1(text), '\n'))
}

// escapeC1 escapes the control characters that JSON lets through: DEL and U+0080 to U+009F, which
// terminals take for commands.
func escapeC1(text []byte) []byte {
	if !bytes.ContainsFunc(text, isC1) {
		return text
	}
	var b bytes.Buffer
	for _, r := range string(text) {
		if isC1(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.Bytes()
}

func isC1(r rune) bool { return r >= 0x7f && r <= 0x9f }
