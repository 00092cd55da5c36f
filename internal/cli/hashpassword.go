package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/usftp/usftp/dial"
	"github.com/usftp/usftp/server/sshd"
)

func (a *app) hashPasswordCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "hash-password",
		Short:   "make the hash of a password for the configuration of serve",
		Long:    hashPasswordLong,
		Example: hashPasswordExamples,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			password, err := a.newPassword(cmd.Context())
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(a.out, sshd.HashPassword(password))
			return err
		},
	}
}

// maxPassword is the longest password that is read: what SSH carries is not much longer.
const maxPassword = 1024

// newPassword asks for a password twice, or reads it from standard input where that is no terminal.
func (a *app) newPassword(ctx context.Context) (password string, err error) {
	if !term.IsTerminal(int(a.stdin.Fd())) {
		password, err = readLine(io.LimitReader(a.stdin, maxPassword+2))
		if err != nil {
			return "", errors.New("standard input has no password")
		}
	} else {
		if password, err = a.prompt(ctx, dial.Prompt{Text: "Password: "}); err != nil {
			return "", err
		}
		again, err := a.prompt(ctx, dial.Prompt{Text: "Again: "})
		if err != nil {
			return "", err
		}
		if again != password {
			return "", errors.New("the two are not the same")
		}
	}
	switch {
	case password == "":
		return "", errors.New("an empty password lets everybody in")
	case len(password) > maxPassword:
		return "", fmt.Errorf("a password of more than %d bytes", maxPassword)
	}
	return password, nil
}
