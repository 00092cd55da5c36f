package daemon

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/usftp/usftp/internal/ui"
)

// healthTimeout is less than a container's usual timeout for a health check, so that the check
// fails with a reason.
const healthTimeout = 5 * time.Second

// healthCommand serves containers that contain only this program, and so no other program that
// could check the server.
func healthCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "health ADDRESS",
		Short:  "report whether an SSH server answers at address:port",
		Hidden: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return &ui.UsageError{Err: fmt.Errorf("health takes one address:port")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), healthTimeout)
			defer cancel()
			return answersAsSSH(ctx, args[0])
		},
	}
}

// answersAsSSH returns an error if the server at address does not send an identification string
// (RFC 4253, section 4.2).
func answersAsSSH(ctx context.Context, address string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	conn.SetDeadline(deadline)
	line, err := bufio.NewReaderSize(conn, 255).ReadSlice('\n')
	if err != nil {
		return fmt.Errorf("%s: no SSH identification: %w", address, err)
	}
	if !strings.HasPrefix(string(line), "SSH-2.0-") {
		return fmt.Errorf("%s: not an SSH server", address)
	}
	return nil
}
