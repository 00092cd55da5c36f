package dial

import (
	"errors"
	"fmt"
	"strings"

	own "github.com/usftp/usftp/internal/ssh"
)

// errSamePassword stops a program that always gives the same answer before the account is locked.
var errSamePassword = errors.New("the same password was refused twice")

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
