package shell

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"unicode"

	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/transfer"
)

// A version is a file's contents at one moment, or its absence.
type version struct {
	exists bool
	hash   [sha256.Size]byte
}

// edit fetches a file, lets the user edit it here, and puts it back if it was changed. If it was
// also changed on the host, the edited file stays here.
func (s *shell) edit(ctx context.Context, r *request) error {
	names, failed := s.expandAll(r.args, s.readable(ctx, r))
	for _, name := range names {
		failed = cmp.Or(failed, s.report(s.editFile(ctx, name)))
		if ctx.Err() != nil {
			break
		}
	}
	return failed
}

func (s *shell) editFile(ctx context.Context, name string) error {
	dir, err := os.MkdirTemp("", "usftp-edit-") // readable only by the user
	if err != nil {
		return fmt.Errorf("cannot edit %s: %s", name, ui.ReasonOf(err))
	}
	keep := false
	defer func() {
		if !keep {
			os.RemoveAll(dir)
		}
	}()
	copied := filepath.Join(dir, localName(name))
	before, err := s.fetch(ctx, name, copied)
	if err != nil {
		return fmt.Errorf("cannot edit %s: %w", name, err)
	}
	edited := s.child(ctx, editor(copied))
	after, err := versionOf(copied)
	keep = err != nil || after != before && after.exists
	kept := ""
	if keep {
		kept = "; your version is in " + copied
	}
	switch {
	case edited != nil && keep && errors.As(edited, new(*reportedError)): // Ctrl-C
		s.app.Console.Say(name + " is unchanged" + kept)
		return edited
	case edited != nil:
		return fmt.Errorf("%s is unchanged: %w%s", name, edited, kept)
	case err != nil:
		return fmt.Errorf("cannot read the edited file: %s%s", ui.ReasonOf(err), kept)
	case !keep:
		return nil
	}
	there := filepath.Join(dir, "on the host") // no localName is this
	now, err := s.fetch(ctx, name, there)
	os.Remove(there)
	switch {
	case err != nil:
		return fmt.Errorf("cannot tell whether %s was changed on the host: %w%s", name, err, kept)
	case now != before:
		return fmt.Errorf("%s was changed on the host in the meantime, and was not replaced%s", name, kept)
	}
	host, err := s.session.connect(ctx)
	if err != nil {
		return fmt.Errorf("%w%s", err, kept)
	}
	if !before.exists { // files in a private directory are private; the new one should not be
		os.Chmod(copied, 0o666)
	}
	j := job{options: s.flags.TransferOptions()}
	j.options.NoTargetDirectory = true
	if err := s.transfer(ctx, j, transfer.Remote(host, name), transfer.Local(copied)); err != nil {
		s.app.Console.Say("your version is in " + copied)
		return err
	}
	keep = false
	return nil
}

// localName returns the name of a file's local copy, whose extension matters to editors. It keeps
// only harmless characters, because the name comes from the host.
func localName(name string) string {
	clean := strings.Map(func(r rune) rune {
		if r < 0x80 && (unicode.IsLetter(r) || unicode.IsDigit(r)) ||
			strings.ContainsRune("._-", r) {
			return r
		}
		return '_'
	}, path.Base(name))
	clean = strings.TrimLeft(clean, "-")
	if strings.Trim(clean, ".") == "" {
		return "file"
	}
	if ending := strings.TrimRight(path.Ext(clean), "."); len(clean) > 200 || localfs.CheckReserved(clean) != nil {
		return "file" + ending[:min(len(ending), 20)]
	}
	return clean
}

// maxEdited limits the bytes that edit fetches.
const maxEdited = 1 << 30

// fetch copies a file from the host to a local one, and returns its contents' version.
func (s *shell) fetch(ctx context.Context, name, local string) (version, error) {
	host, err := s.session.connect(ctx)
	if err != nil {
		return version{}, err
	}
	info, err := host.Client.WithContext(ctx).Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return version{}, nil
	case err != nil:
		return version{}, errors.New(ui.ReasonOf(err))
	case !info.Mode().IsRegular():
		return version{}, errors.New("not a regular file")
	case info.Size() > maxEdited:
		return version{}, fmt.Errorf("too large to edit (%s)", ui.Amount(float64(info.Size())))
	}
	options := s.flags.TransferOptions()
	options.NoTargetDirectory = true
	_, err = transfer.Copy(ctx, transfer.Local(local), transfer.Remote(host, name), options)
	if err != nil {
		return version{}, err
	}
	os.Chmod(local, 0o600)
	return versionOf(local)
}

func versionOf(local string) (v version, err error) {
	f, err := os.Open(local)
	if errors.Is(err, fs.ErrNotExist) {
		return v, nil
	} else if err != nil {
		return v, err
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return v, err
	}
	v.exists = true
	hash.Sum(v.hash[:0])
	return v, nil
}

// editor returns the command that edits a file: $VISUAL or $EDITOR, which may have arguments, or
// vi.
func editor(file string) *exec.Cmd {
	for _, name := range []string{"VISUAL", "EDITOR"} {
		if program := os.Getenv(name); strings.TrimSpace(program) != "" {
			return withArguments(program, file)
		}
	}
	if runtime.GOOS == "windows" {
		return exec.Command("notepad", file)
	}
	return exec.Command("vi", file)
}
