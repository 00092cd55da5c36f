package shell

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/internal/ui"
)

var errNoPrevious = errors.New("no previous directory")

func (s *shell) cd(ctx context.Context, r *request) error {
	name := s.session.home
	if len(r.args) == 1 && r.args[0].text == "-" {
		if name = s.session.was; name == "" {
			return errNoPrevious
		}
	} else if len(r.args) == 1 {
		names, err := s.remoteNames(ctx, r.host, r.args[0])
		if err != nil {
			return err
		}
		if len(names) > 1 {
			return fmt.Errorf("%s matches %d names", r.args[0].text, len(names))
		}
		name = names[0]
	}
	was := s.session.dir
	if err := s.enter(ctx, r.host.Client, name); err != nil {
		return err
	}
	s.session.was = was
	return nil
}

// enter changes the directory on the host.
func (s *shell) enter(ctx context.Context, client *usftp.Client, name string) error {
	client = client.WithContext(ctx)
	real := client.Async().RealPath(name) // at the same time as the other request
	info, statErr := private.OfClient(client).Find(name)
	dir, err := real.WaitContext(ctx)
	if private.Untold(err) {
		dir, err = name, nil
	}
	if private.Untold(statErr) {
		info, statErr = nil, nil
	}
	if err = cmp.Or(statErr, err); err == nil && info != nil && !info.IsDir() {
		err = errors.New("not a directory")
	}
	if err != nil {
		if path, ok := errors.AsType[*fs.PathError](err); ok {
			err = path.Err
		}
		return fmt.Errorf("cannot change the directory to %s: %w", name, err)
	}
	s.session.enter(dir)
	s.listings.get(dir)
	return nil
}

func (s *shell) pwd(_ context.Context, r *request) error {
	_, err := fmt.Fprintf(s.app.Out, "Remote working directory: %s\n", ui.Printable(s.session.dir))
	return err
}

// rename renames as sftp does: to the new name, replacing an existing file, and never into a
// directory.
func (s *shell) rename(ctx context.Context, r *request) error {
	client := r.host.Client.WithContext(ctx)
	from, to := s.session.abs(r.args[0].text), s.session.abs(r.args[1].text)
	replace := !r.has('l') && client.HasPosixRename()
	return cannot("rename %s to %s", private.OfClient(client).Move(from, to, replace))
}

// cannot says what failed with two names, in the words of the other commands.
func cannot(what string, err error) error {
	if link, ok := errors.AsType[*os.LinkError](err); ok {
		return fmt.Errorf("cannot "+what+": %w", link.Old, link.New, link.Err)
	}
	return err
}

func (s *shell) symlink(ctx context.Context, r *request) error {
	client := r.host.Client.WithContext(ctx)
	return cannot("link to %s from %s", client.Symlink(r.args[0].text, s.session.abs(r.args[1].text)))
}

func (s *shell) version(_ context.Context, r *request) error {
	offers := slices.Sorted(maps.Keys(r.host.Client.Extensions()))
	_, err := fmt.Fprintf(s.app.Out, "SFTP protocol version 3\n%s offers: %s\n",
		ui.Printable(r.host.Name), ui.Printable(strings.Join(offers, ", ")))
	return err
}

func (s *shell) progress(context.Context, *request) error {
	s.meter = !s.meter
	state := "disabled"
	if s.meter {
		state = "enabled"
	}
	_, err := fmt.Fprintf(s.app.Out, "Progress meter %s\n", state)
	return err
}
