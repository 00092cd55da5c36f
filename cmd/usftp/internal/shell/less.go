package shell

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"

	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/transfer"
)

// less shows files in $PAGER, less or more.
func (s *shell) less(ctx context.Context, r *request) error {
	names, failed := s.expandAll(r.args, s.readable(ctx, r))
	if len(names) == 0 {
		return failed
	}
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	fetched := make(chan error, 1)
	go func() {
		defer write.Close()
		fetched <- s.concatenate(ctx, r.host, names, write)
	}()
	err = s.pager(ctx, read)
	read.Close()
	stop() // after leaving the pager the user does not want the rest
	why := <-fetched
	if err == nil && !errors.Is(why, context.Canceled) && !errors.Is(why, errPagerLeft) {
		err = why
	}
	return cmp.Or(failed, s.report(err))
}

var errPagerLeft = errors.New("the pager has ended")

// pagerPipe distinguishes the end of the pager from other errors.
type pagerPipe struct{ *os.File }

func (p pagerPipe) Write(b []byte) (int, error) {
	n, err := p.File.Write(b)
	if err != nil {
		err = errPagerLeft
	}
	return n, err
}

// concatenate writes files one after the other.
func (s *shell) concatenate(ctx context.Context, host pool.Host, names []string,
	to *os.File) error {
	for _, name := range names {
		_, err := transfer.Copy(ctx, transfer.Writer(pagerPipe{to}), transfer.Remote(host, name),
			s.flags.TransferOptions())
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *shell) pager(ctx context.Context, in *os.File) error {
	program := os.Getenv("PAGER")
	if strings.TrimSpace(program) == "" {
		program = "more"
		if _, err := exec.LookPath("less"); err == nil {
			program = "less"
		}
	}
	cmd := withArguments(program)
	cmd.Stdin = in
	return s.child(ctx, cmd)
}
