package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/usftp/usftp/dial"
	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/server/sshd"
)

func hashPasswordCommand(a *ui.App) *cobra.Command {
	return &cobra.Command{
		Use:     "hash-password",
		Short:   "hash a password for the configuration",
		Long:    hashPasswordLong,
		Example: hashPasswordExamples,
		Args:    ui.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			password, err := newPassword(cmd.Context(), a)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(a.Out, sshd.HashPassword(password))
			return err
		},
	}
}

// maxPassword is the longest password that is read: hardly any program sends longer ones.
const maxPassword = 1024

// newPassword asks for a password twice, or reads it from standard input if that is not a terminal.
func newPassword(ctx context.Context, a *ui.App) (password string, err error) {
	if !ui.IsTerminal(a.Stdin) {
		password, err = ui.ReadLine(io.LimitReader(a.Stdin, maxPassword+2))
		if err != nil {
			return "", errors.New("no password on standard input")
		}
	} else {
		if password, err = a.Prompt(ctx, dial.Prompt{Text: "Password: "}); err != nil {
			return "", err
		}
		again, err := a.Prompt(ctx, dial.Prompt{Text: "Again: "})
		if err != nil {
			return "", err
		}
		if again != password {
			return "", errors.New("the passwords do not match")
		}
	}
	switch {
	case password == "":
		return "", errors.New("the password is empty")
	case len(password) > maxPassword:
		return "", fmt.Errorf("the password is longer than %d bytes", maxPassword)
	}
	return password, nil
}
