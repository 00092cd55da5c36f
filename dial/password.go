package dial

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	own "github.com/usftp/usftp/internal/ssh"
)

// errSamePassword stops a program that always gives the same answer before the account is locked.
var errSamePassword = errors.New("the same password was refused twice")

// refusals counts how often the host has refused in a row a password that was right before.
type refusals struct {
	times int
	at    time.Time // of the last one
	err   error
}

const (
	// mostRefused is how often such a password is sent, since the first refusal may be the host's
	// fault. Then it is sent once in each refusedPause: whoever reconnects again and again would
	// get the account locked after somebody has changed the password.
	mostRefused  = 2
	refusedPause = 15 * time.Minute
)

// mayTry returns why no login may be tried now.
func (d *Dialer) mayTry() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refused.times >= mostRefused && time.Since(d.refused.at) < refusedPause {
		return d.refused.err
	}
	return nil
}

// secretRefused reports whether the server has refused a login with a password that was right
// before, and not merely hung up.
func (l *login) secretRefused() bool {
	return slices.ContainsFunc(l.replay, func(s step) bool { return s.secret != "" }) &&
		(l.failure != nil || disconnected(l.raw))
}

// isRefused notes a password that is about to be sent, and reports whether it was refused twice.
func (l *login) isRefused(password string) bool {
	times := 0
	for _, sent := range l.passwords {
		if sent == password {
			times++
		}
	}
	l.passwords = append(l.passwords, password)
	return times >= 2
}

// changeTries is how often to ask for a new password: because two differ, or because the server
// refuses one.
const changeTries = 3

// changePassword returns a function that asks for the old password and a new one, as ssh does, when
// the server wants another one.
func (l *login) changePassword() own.PasswordChange {
	tries, last := 0, ""
	return func(text string) (old, fresh string, err error) {
		defer func() {
			if err != nil {
				err = fmt.Errorf("the server wants a new password (%s): %w",
					printable([]byte(text)), err)
				l.interactError = err
			}
		}()
		if strings.TrimSpace(text) != "" {
			l.banner(text)
		}
		who := l.s.userHost()
		old, err = l.ask(Prompt{Kind: AskPassword,
			Text: fmt.Sprintf("Enter %s's old password: ", who)})
		enter := fmt.Sprintf("Enter %s's new password: ", who)
		question := enter
		for err == nil {
			if tries++; tries > changeTries {
				return "", "", errors.New("no new password was found")
			}
			if fresh, err = l.ask(Prompt{Kind: AskNewPassword, Text: question}); err != nil {
				break
			}
			if fresh == last || fresh == old {
				return "", "", errors.New("the new password is the one that it does not take")
			}
			var again string
			again, err = l.ask(Prompt{Kind: AskNewPassword,
				Text: fmt.Sprintf("Retype %s's new password: ", who)})
			if err == nil && again == fresh {
				last, l.current.secret = fresh, fresh
				return old, fresh, nil
			}
			question = joinLines("Mismatch; try again.", enter)
		}
		return "", "", err
	}
}
