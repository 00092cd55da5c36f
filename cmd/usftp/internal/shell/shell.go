package shell

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/dial"
	"github.com/usftp/usftp/internal/ui"
)

// A shell runs commands from any source, one after the other.
type shell struct {
	app        *ui.App
	flags      *flags
	session    *session
	listings   *listings
	interrupts interrupts

	// ask asks the user who types commands. Nil means that there is none.
	ask func(ctx context.Context, question string) (yes bool, err error)

	quoting  quoting
	meter    bool   // show progress
	stdin    bool   // programs run here may use standard input
	single   bool   // one file is copied, and there is no session
	localWas string // the local directory before the last lcd, "" if there was none
}

func newShell(a *ui.App, f *flags, target dial.Target) *shell {
	config := f.Config(a, &f.Report)
	config.Dial.IgnoreInterrupts = interactive(a, f)
	s := &shell{app: a, flags: f, meter: true}
	target.Path = ""
	s.session = &session{target: target, config: config, retry: f.Retry(),
		tell: a.Console.Say}
	return s
}

// start logs in and enters the operand's directory. A file is copied instead, and done is true.
func (s *shell) start(ctx context.Context, at, to string) (done bool, err error) {
	host, err := s.session.connect(ctx)
	if err != nil {
		return true, err
	}
	if at == "" {
		s.listings.get(s.session.dir)
		return false, nil
	}
	name := s.session.abs(at)
	is, err := isDirectory(ctx, host, name)
	if is && to == "" {
		return false, s.enter(ctx, host.Client, name)
	}
	if err != nil {
		return true, err
	}
	s.single = true
	r := &request{line: line{command: find("get"),
		args: []word{{text: "--"}, {text: at, pattern: at}}}} // at may look like a flag
	if to != "" {
		r.args = append(r.args, word{text: to, pattern: usftp.QuotePattern(to)})
	}
	return true, s.execute(ctx, r)
}

// run runs one command line. ends means that the session is over.
func (s *shell) run(ctx context.Context, l line) (ends bool, err error) {
	if l.command == nil {
		return false, nil
	}
	err = s.execute(ctx, &request{line: l})
	if err != nil && l.command.repeats && ctx.Err() == nil && s.session.lost() {
		err = s.execute(ctx, &request{line: l})
	}
	if l.command.changes {
		s.listings.changed()
	}
	if err != nil && ctx.Err() != nil && !errors.As(err, new(*reportedError)) {
		err = context.Cause(ctx)
	}
	return l.command.ends && err == nil, err
}

func (s *shell) execute(ctx context.Context, r *request) error {
	c := r.command
	if !c.raw && !c.ownFlags {
		if err := r.parseFlags(); err != nil {
			return err
		}
	}
	if err := r.count(); err != nil {
		return err
	}
	if !c.offline {
		var err error
		if r.host, err = s.session.connect(ctx); err != nil {
			return err
		}
	}
	return c.run(s, ctx, r)
}

// interrupts directs Ctrl-C while the shell runs: to the command, not the shell.
type interrupts struct {
	mu      sync.Mutex
	cancel  context.CancelCauseFunc // of the running command; nil if there is none
	ignored bool                    // a program has the terminal
	came    chan struct{}           // receives a value when one was ignored
}

// begin returns a command's context, which Ctrl-C ends.
func (i *interrupts) begin(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.cancel = cancel
	return ctx, func() {
		i.mu.Lock()
		i.cancel = nil
		i.mu.Unlock()
		cancel(nil)
	}
}

// interrupted handles SIGINT.
func (i *interrupts) interrupted(cause *ui.Interruption) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.ignored:
		select {
		case i.came <- struct{}{}:
		default:
		}
	case i.cancel != nil:
		i.cancel(cause)
	}
	return true
}

func (i *interrupts) ignore(on bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ignored = on
	i.came = make(chan struct{}, 1)
}

// await waits for a SIGINT that we are sent too, and ignore: it must not end the next command.
func (i *interrupts) await(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second) // or it was sent to the program alone
	defer cancel()
	i.mu.Lock()
	came := i.came
	i.mu.Unlock()
	select {
	case <-came:
	case <-ctx.Done():
	}
}
