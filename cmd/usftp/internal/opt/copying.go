package opt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/transfer"
)

// Copying holds the flags that cp and sync have in common.
type Copying struct {
	// Each of the two registers these, in its own words.
	NoTimes, NoPerms, Owners, Update, Verify, Fsync bool
	Delta                                           Delta

	filesFrom                      string
	from0                          bool
	list                           *transfer.FileList
	minAge                         time.Duration
	chmod                          func(fs.FileMode) fs.FileMode
	makePath, takeSource, changing bool
}

// Register adds the flags.
func (c *Copying) Register(f *pflag.FlagSet) {
	f.StringVar(&c.filesFrom, "files-from", "",
		"copy only what `file` lists, or standard input if it is -: paths below SRC, one per line; what is in a directory only if its path ends in a slash, or with -r")
	f.BoolVarP(&c.from0, "from0", "0", false, "paths in the list of --files-from end in a NUL")
	f.Func("min-age", "leave out files modified less than this `time` ago, such as 5m, 36h or 7d",
		func(text string) (err error) {
			c.minAge, err = ParseAge(text)
			return err
		})
	f.Func("chmod",
		"change the permissions that files have in SRC by `modes`, such as D755,F644 or g-w, before they are used",
		func(text string) (err error) {
			c.chmod, err = parseChmod(text, c.chmod)
			return err
		})
	f.BoolVar(&c.makePath, "mkpath", false, "make the directories above DST that are missing")
	f.BoolVar(&c.takeSource, "remove-source-files", false,
		"delete each file from SRC once its copy is proved, by the host's hash or --verify, or else by its size; what changes meanwhile stays")
	f.BoolVar(&c.changing, "changing", false,
		"accept files that change while they are copied, such as logs, and those whose size the host does not know: copy what can be read up to the end")
}

// Check checks the flags; set reports whether one was given.
func (c *Copying) Check(set func(name string) bool, links string) error {
	switch {
	case c.from0 && !c.Listed():
		return errors.New("--from0 is about the list of --files-from")
	case set("files-from") && c.filesFrom == "":
		return errors.New("--files-from needs a file, or - for standard input")
	case c.takeSource && links == "follow":
		return errors.New("--remove-source-files cannot be combined with --links follow: a link is not what was copied")
	case c.takeSource && set("keep-dirlinks"):
		return errors.New("--remove-source-files and --keep-dirlinks cannot be combined: two directories of SRC may be one in DST, and of files of the same name one would be lost")
	case c.takeSource && (set("hosts") || set("hosts-file")):
		return errors.New("--remove-source-files is for one host: the others still need what it deletes")
	}
	return nil
}

// Listed reports whether a list names the files to copy.
func (c *Copying) Listed() bool { return c.filesFrom != "" }

// RemovesSource reports whether copied files are deleted from the source.
func (c *Copying) RemovesSource() bool { return c.takeSource }

// HasMinAge reports whether young files are left out.
func (c *Copying) HasMinAge() bool { return c.minAge > 0 }

// ReadList reads the list of --files-from, if there is one. It may be a pipe that never ends.
func (c *Copying) ReadList(ctx context.Context, a *ui.App, recursive bool) error {
	if c.filesFrom == "" {
		return nil
	}
	list, err := ui.Await(ctx, func() (*transfer.FileList, error) {
		if c.filesFrom == "-" {
			return transfer.ReadFileList(a.StandardInput(ctx), c.from0)
		}
		file, err := os.Open(c.filesFrom)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		return transfer.ReadFileList(file, c.from0)
	})
	if err != nil {
		hint := ""
		if errors.Is(err, fs.ErrInvalid) && !c.from0 {
			hint = "; -0 reads paths that end in a NUL"
		}
		return fmt.Errorf("--files-from %s: %s%s", c.filesFrom, ui.ReasonOf(err), hint)
	}
	list.Recursive = recursive
	c.list = list
	return nil
}

// SetMakePath has the effect of --mkpath.
func (c *Copying) SetMakePath() { c.makePath = true }

// Apply adds the flags to the options of a copy.
func (c *Copying) Apply(o *transfer.Options) {
	o.Chmod, o.MakePath, o.RemoveSource = c.chmod, c.makePath, c.takeSource
	o.NoTimes, o.NoModes, o.Owners, o.Changing = c.NoTimes, c.NoPerms, c.Owners, c.changing
	o.Update, o.Verify, o.Sync, o.Delta = c.Update, c.Verify, c.Fsync, c.Delta.Mode()
	o.Journal = Journal()
}

// ApplyTree adds the flags that only concern a tree.
func (c *Copying) ApplyTree(o *transfer.TreeOptions) { o.Files, o.MinAge = c.list, c.minAge }

// ParseAge parses a time such as 36h or 7d.
func ParseAge(text string) (time.Duration, error) {
	age, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n int
		if n, err = strconv.Atoi(days); n > 100*365 {
			err = strconv.ErrRange
		}
		age = time.Duration(n) * 24 * time.Hour
	}
	if err != nil || age < 0 {
		return 0, errors.New("must be a time such as 5m, 36h or 7d")
	}
	return age, nil
}
