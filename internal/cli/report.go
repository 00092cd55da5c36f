package cli

import (
	"errors"
	"fmt"

	"github.com/usftp/usftp/transfer"
)

// A reporter tells what happens: to a person or to a program.
type reporter interface {
	event(transfer.Event) // of a job
	failed(error)         // outside of any job
	end(code int)
}

func (a *app) reporter(flags *copyFlags, target place) reporter {
	if flags.json {
		return newEventWriter(output{a}, a.console)
	}
	p := &person{console: a.console, quiet: flags.quiet, verbose: flags.verbose > 0}
	// A line that moves would tear apart what is shown on the same screen.
	p.moving = a.console.terminal() && !flags.quiet && !flags.noProgress && !(target.stream && isTerminal(a.stdout))
	return p
}

// A person reads standard error.
type person struct {
	console        *console
	quiet, verbose bool
	moving         bool // with a progress line
	line           *progressLine
}

func (p *person) event(e transfer.Event) {
	switch e.Kind {
	case transfer.Started:
		if p.moving {
			p.line = startLine(p.console, sourceOf(e), e.Size)
		}
	case transfer.Progress:
		p.line.update(e)
	case transfer.Note:
		if !p.quiet {
			p.console.say(fmt.Sprintf("%s: %s", targetOf(e), e.Message))
		}
	case transfer.Done:
		p.line.finish(e, true)
		p.line = nil
		if p.verbose {
			p.console.say(fmt.Sprintf("copied %s to %s: %s in %.1f s, %s", sourceOf(e), targetOf(e), amount(float64(e.Bytes)), e.Elapsed.Seconds(), rate(e.Bytes, e.Elapsed)))
		}
	case transfer.Failed:
		p.line.finish(e, false)
		p.line = nil
		if !errors.Is(e.Err, errOutputGone) {
			p.console.say(e.Message)
		}
	}
}

func (p *person) failed(err error) { p.console.say(err.Error()) }

func (p *person) end(int) {}

// sourceOf names the source of a job as a person would type it.
func sourceOf(e transfer.Event) string {
	if e.Direction == transfer.Download {
		return e.Host + ":" + e.Source
	}
	return e.Source
}

// targetOf names the target of a job.
func targetOf(e transfer.Event) string {
	if e.Direction == transfer.Upload {
		return e.Host + ":" + e.Target
	}
	return e.Target
}
