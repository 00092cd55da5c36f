package shell

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/cmd/usftp/internal/files"
	"github.com/usftp/usftp/cmd/usftp/internal/sync"
	"github.com/usftp/usftp/cmd/usftp/internal/verb"
	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/transfer"
)

// verb runs a command of package files in the current directory on the host.
func (s *shell) verb(ctx context.Context, c files.SessionCommand, r *request) error {
	host, words := r.host, r.args
	env := &verb.Env{Client: host.Client, Host: host.Name, Dir: s.session.dir, Out: s.app.Out,
		Say: s.app.Console.Say}
	if ui.IsTerminal(s.app.Stdout) {
		env.Terminal, env.Width = true, ui.Width(s.app.Stdout)
	}
	env.Ask, env.Run = s.ask, s.program
	env.Operand = func(name string) string {
		return files.Operand(s.session.target, s.session.abs(strings.TrimPrefix(name, "./")))
	}
	// To the command, operands are plain texts; it determines which ones are flags. Their order shows
	// which word, with its quotes, an operand came from.
	left := words
	tries := 0
	var gaveUp error
	env.Renew = func(_ error, progress bool) *usftp.Client {
		if gaveUp != nil || !pool.Lost(host.Client) {
			return nil
		}
		if progress {
			tries = 0
		}
		if tries++; tries > max(1, s.session.retry.Retries) {
			return nil
		}
		if host, gaveUp = s.session.reconnect(ctx, host); gaveUp != nil {
			return nil
		}
		return host.Client
	}
	operand := func(text string) (w word, rest []word) {
		for i, w := range left {
			if w.text == text {
				return w, left[i+1:]
			}
		}
		return word{text: text, pattern: usftp.QuotePattern(text)}, left
	}
	names := s.remoteNames
	if c.Reads {
		names = s.readableNames
	}
	err := c.Run(ctx, env, textsOf(words), func(text string, literal bool) ([]string, error) {
		w, rest := operand(text)
		switch {
		case !w.isPattern():
			left = rest
			return []string{s.tilde(w)}, nil
		case literal:
			left = rest
			return []string{w.text}, nil
		}
		names, err := names(ctx, host, w)
		if err != nil {
			return nil, err
		}
		left = rest
		if !strings.HasPrefix(text, "/") { // show it as typed
			for i := range names {
				names[i] = strings.TrimPrefix(names[i], strings.TrimSuffix(s.session.dir, "/")+"/")
			}
		}
		return names, nil
	})
	if gaveUp != nil {
		return gaveUp
	}
	if usage, ok := errors.AsType[*ui.UsageError](err); ok {
		return fmt.Errorf("%s: %w; usage: %s %s", c.Name, usage.Err, c.Name, c.Usage)
	}
	return err
}

func textsOf(words []word) []string {
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = w.text
	}
	return list
}

// chgrp runs chown for groups only.
func (s *shell) chgrp(ctx context.Context, r *request) error {
	for i, w := range r.args {
		if !strings.HasPrefix(w.text, "-") {
			r.args[i].text, r.args[i].pattern = ":"+w.text, ":"+w.pattern
			break
		}
	}
	return find("chown").run(s, ctx, r)
}

// sync makes a directory equal to another. One is local and one is on the host, marked by a leading
// colon because there is no host name; or both are on the host.
func (s *shell) sync(ctx context.Context, r *request) error {
	remote := 0
	for _, w := range r.args {
		if strings.HasPrefix(w.text, ":") {
			remote++
		}
	}
	if remote == 0 {
		return errors.New("sync needs a colon in front of the directory that is on the host: " +
			"sync DIR :DIR, or sync :DIR DIR")
	}
	endpoint := func(operand string) (transfer.Endpoint, error) {
		if name, ok := strings.CutPrefix(operand, ":"); ok {
			if name == "~" || strings.HasPrefix(name, "~/") {
				name = s.session.home + name[1:]
			}
			return transfer.Remote(r.host, s.session.abs(name)), nil
		}
		return transfer.Local(operand), nil
	}
	return sync.InSession(ctx, s.app, textsOf(r.args), endpoint)
}
