package files

import (
	"bufio"
	"context"
	"io"
	"strings"

	"github.com/usftp/usftp/cmd/usftp/internal/report"
	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/transfer"
)

// reporter reports failures that concern a host and not a file.
type reporter struct {
	*command
	host string // the current host
}

// Event implements report.Reporter; these commands copy nothing.
func (r *reporter) Event(transfer.Event) {}

// Failed reports a failure that does not concern a file.
func (r *reporter) Failed(err error) {
	message := report.Advice.Replace(err.Error())
	r.app.Console.Say(message)
	if r.flags.JSON {
		ui.WriteJSON(r.app.Out, struct {
			Version int    `json:"v"`
			Kind    string `json:"kind"`
			Host    string `json:"host,omitempty"`
			Message string `json:"message"`
		}{1, "error", r.host, message})
	}
}

// End implements report.Reporter.
func (r *reporter) End(int) {}

// asker asks questions on standard error and reads the answers from standard input, as rm -i does,
// so that "yes | usftp rm -i" works.
func asker(a *ui.App) func(ctx context.Context, question string) (bool, error) {
	var input *bufio.Reader
	return func(ctx context.Context, question string) (bool, error) {
		if input == nil {
			input = bufio.NewReader(a.StandardInput(ctx))
		}
		io.WriteString(a.Console, "usftp: "+ui.Printable(question)+" ")
		answer, err := input.ReadString('\n')
		if err == io.EOF {
			err = nil
		}
		answer = strings.ToLower(strings.TrimSpace(answer))
		return strings.HasPrefix(answer, "y"), err
	}
}
