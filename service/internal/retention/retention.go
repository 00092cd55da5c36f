// Package retention removes or moves files that have been in a folder for long.
package retention

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"math/rand/v2"
	"path"
	"strings"
	"time"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/wire"
)

// A Rule is for a folder of a user.
type Rule struct {
	User   string
	Path   string // the folder, as the user sees it
	Age    time.Duration
	MoveTo string // another folder, or "": files are removed
}

// Protocol is the Protocol of events about changes by a rule.
const Protocol = "retention"

const (
	// deepest limits the depth of folders, mostFolders how many one may have in it, and mostStay
	// how many old files in one may fail. atOnce is how many old files of a folder are looked for
	// at a time, and for how many failures of a folder there are lines in the log. mostNamed is how
	// many files with the same name and time are moved to one folder.
	deepest     = 100
	mostFolders = 50_000
	mostStay    = 50_000
	atOnce      = 1000
	mostNamed   = 1000

	// shortest and longest are how often a rule is applied: a tenth of its age, within these.
	shortest = time.Second
	longest  = time.Hour
)

// Every returns how often a rule is applied.
func (r *Rule) Every() time.Duration { return min(max(r.Age/10, shortest), longest) }

// Apply applies a rule to the files of its user, as of a time, until ctx ends. Files that cannot be
// removed or moved stay, and are logged.
func (r *Rule) Apply(ctx context.Context, now time.Time, files server.FS, policy *server.Policy,
	reports *server.Reporter) error {
	view, err := server.NewView(files, policy)
	if err != nil {
		return err
	}
	a := &application{Rule: r, view: view.Reporting(reports), log: reports.Logger,
		before: now.Add(-r.Age)}
	_, err = a.stat(ctx, r.Path)
	if err == nil {
		err = a.folder(ctx, path.Clean(r.Path), 0)
	}
	if errors.Is(err, fs.ErrNotExist) { // the user has not made it yet
		return nil
	}
	return err
}

// application is a rule that is being applied.
type application struct {
	*Rule
	view   *server.View
	log    *slog.Logger
	before time.Time
}

// beneath returns a context for requests that follow no link: a client that may write to the folder
// could otherwise put a link in place of a folder at the right moment, and have other files
// removed.
func beneath(ctx context.Context) context.Context { return server.WithBeneath(ctx, "/") }

func (a *application) stat(ctx context.Context, name string) (fs.FileInfo, error) {
	if name == "/" {
		return a.view.Lstat(ctx, name)
	}
	return a.view.Lstat(beneath(ctx), name)
}

// list lists a folder.
func (a *application) list(ctx context.Context, folder string) iter.Seq2[fs.FileInfo, error] {
	if folder != "/" { // which has no last element that could be a link
		ctx = beneath(ctx)
	}
	return a.view.List(ctx, folder)
}

// folder looks through a folder. It collects some old files before it changes anything.
func (a *application) folder(ctx context.Context, folder string, depth int) error {
	failed := map[string]bool{}
	for {
		var old, below []string
		for info, err := range a.list(ctx, folder) {
			if err != nil {
				return err
			}
			name := path.Join(folder, info.Name())
			switch {
			case info.IsDir() && len(below) == mostFolders:
				return errors.New("holds too many folders")
			case info.IsDir():
				below = append(below, name)
			case a.stays(info) == nil && !failed[name]:
				old = append(old, name)
			}
			if len(old) == atOnce {
				break
			}
		}
		for _, name := range old {
			if err := a.file(ctx, name); err != nil {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				if failed[name] = true; len(failed) <= atOnce {
					a.log.Warn("an old file stays", "path", name, "error", err)
				}
			}
		}
		if len(old) == atOnce && len(failed) < mostStay {
			continue
		}
		if len(failed) > atOnce {
			a.log.Warn("more old files stay", "path", folder, "count", len(failed)-atOnce)
		}
		// Each time in another order, since the time may be over before the last.
		rand.Shuffle(len(below), func(i, j int) { below[i], below[j] = below[j], below[i] })
		for _, name := range below {
			if depth == deepest || a.isTarget(name) {
				continue
			}
			if err := a.folder(ctx, name, depth+1); err != nil && ctx.Err() != nil {
				return err
			} else if err != nil {
				a.log.Warn("old files are not looked for", "path", name, "error", err)
			}
		}
		return ctx.Err()
	}
}

func (a *application) isTarget(folder string) bool { return a.MoveTo != "" && folder == a.MoveTo }

// old reports whether a file has been here for long enough. Its modification time alone does not
// tell: most clients set it to the time of the file they sent.
func (a *application) old(info fs.FileInfo) bool {
	at := info.ModTime()
	if changed, ok := info.(server.Changed); ok && changed.ChangeTime().After(at) {
		at = changed.ChangeTime()
	}
	return at.Before(a.before)
}

// file removes or moves a file, unless another file has its name by now.
func (a *application) file(ctx context.Context, name string) error {
	info, err := a.stat(ctx, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case a.stays(info) != nil:
		return nil
	case a.MoveTo == "":
		return a.unlessReplaced(a.view.Remove(a.ifOld(ctx), name))
	}
	to := path.Join(a.MoveTo, strings.TrimPrefix(name, path.Clean(a.Path)))
	if err := a.makeFolders(ctx, path.Dir(to)); err != nil {
		return err
	}
	at := to + info.ModTime().UTC().Format(".20060102T150405Z")
	for n := 1; n <= mostNamed; n++ { // nothing is replaced
		if _, err = a.stat(ctx, to); err != nil {
			break
		}
		if to = at; n > 1 {
			to += fmt.Sprint("-", n)
		}
	}
	return a.unlessReplaced(a.view.Rename(a.ifOld(ctx), name, to))
}

var errReplaced = errors.New("another file has the name by now")

// stays returns an error for anything but an old file.
func (a *application) stays(info fs.FileInfo) error {
	if !info.Mode().IsRegular() || !a.old(info) {
		return errReplaced
	}
	return nil
}

// ifOld returns the context of a change beneath the folder that is made only if the file is still
// old. Hooks are asked after the first look, which may take long, and this process may be
// suspended.
func (a *application) ifOld(ctx context.Context) context.Context {
	return server.WithCondition(beneath(ctx), a.stays)
}

func (a *application) unlessReplaced(err error) error {
	if errors.Is(err, errReplaced) {
		return nil
	}
	return err
}

// makeFolders makes a folder, and its parents.
func (a *application) makeFolders(ctx context.Context, folder string) error {
	if folder == "/" {
		return nil
	}
	info, err := a.stat(ctx, folder)
	if err == nil && !info.IsDir() {
		return &fs.PathError{Op: "mkdir", Path: folder, Err: errors.New("not a folder")}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := a.makeFolders(ctx, path.Dir(folder)); err != nil {
		return err
	}
	err = a.view.Mkdir(beneath(ctx), folder, wire.Attrs{})
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}
