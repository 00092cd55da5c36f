package opt

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/transfer"
)

// Tree holds the flags that select the part of a tree to copy or compare.
type Tree struct {
	Links               string
	keepDirLinks        bool
	filter              []transfer.FilterRule
	DryRun, StopOnError bool
	maxDepth            int
	maxEntries          int64
	CountAhead          bool // no flag: a person watches
}

// RegisterBounds adds the flags that limit trees, which could be endless.
func (c *Tree) RegisterBounds(f *pflag.FlagSet) {
	f.IntVar(&c.maxDepth, "max-depth", 256,
		"fail if directories are more than `n` levels deep, as a hostile server could make them; 0 for no limit")
	f.Int64Var(&c.maxEntries, "max-entries", 20_000_000,
		"stop at more than `n` entries; 0 for no limit")
}

// RegisterKeepDirLinks adds rsync's flag of that name.
func (c *Tree) RegisterKeepDirLinks(f *pflag.FlagSet, with string) {
	f.BoolVarP(&c.keepDirLinks, "keep-dirlinks", "K", false, with+
		"treat a link in DST that leads to a directory as that directory, where SRC has a directory of the same name; trust those who can make links in DST")
}

// FilterHelp explains the flags of RegisterFilter.
const FilterHelp = `--exclude, --include and --exclude-from form one list of rules, in the order given. The
first rule that matches decides; what no rule matches is included. Patterns are rsync's:
a pattern that begins with a slash must match the whole path below SRC, a pattern with a
slash elsewhere the end of a path, and any other pattern the last element. * and ? do
not match slashes, ** does. A pattern that ends in a slash matches only directories.`

// RegisterFilter adds the flags that select parts of a tree. exclude describes --exclude.
func (c *Tree) RegisterFilter(f *pflag.FlagSet, exclude string) {
	// All rules go into one list, since their order matters.
	f.Func("exclude", exclude+"; the first rule that matches decides",
		func(text string) error { return c.addRule(text, false) })
	f.Func("include", "include what matches `pattern`, even if a later rule excludes it",
		func(text string) error { return c.addRule(text, true) })
	f.Func("exclude-from",
		"read exclude rules from `file`, one per line; a line that begins with \"+ \" includes",
		c.addRules)
}

func (c *Tree) addRule(text string, include bool) error {
	c.filter = transfer.AppendFilter(c.filter, text, include)
	return c.checkRules()
}

func (c *Tree) addRules(name string) error {
	file, err := os.Open(name)
	if err != nil {
		return errors.New(ui.ReasonOf(err))
	}
	defer file.Close()
	if c.filter, err = transfer.ReadFilter(c.filter, file, false); err != nil {
		return err
	}
	return c.checkRules()
}

// checkRules refuses patterns that can match nothing. rsync says nothing, and with --delete what
// they were meant to keep would go.
func (c *Tree) checkRules() error {
	for _, rule := range c.filter {
		if rule.Pattern == "" || rule.Pattern == "/" {
			return errors.New("the pattern is empty")
		}
		for element := range strings.SplitSeq(rule.Pattern, "/") {
			if element == "." || element == ".." {
				return fmt.Errorf("%q matches nothing: paths in the tree have no %q", rule.Pattern,
					element)
			}
		}
	}
	return nil
}

// includesOnly reports whether the rules leave nothing out, which no user means.
func (c *Tree) includesOnly() bool {
	return len(c.filter) > 0 && !slices.ContainsFunc(c.filter,
		func(r transfer.FilterRule) bool { return !r.Include })
}

// Check checks the flags.
func (c *Tree) Check() error {
	switch {
	case c.includesOnly():
		return errors.New("--include alone leaves nothing out; to select only what it matches, " +
			"add --include='*/' --exclude='*'")
	case c.Links != "" && c.Links != "preserve" && c.Links != "follow" && c.Links != "skip":
		return fmt.Errorf("--links %s: must be preserve, follow or skip", c.Links)
	case c.maxDepth < 0, c.maxEntries < 0:
		return errors.New("--max-depth and --max-entries must not be negative")
	}
	return nil
}

// TreeOptions returns the options for copying directories.
func (c *Tree) TreeOptions() transfer.TreeOptions {
	o := transfer.TreeOptions{Filter: c.filter, DryRun: c.DryRun,
		StopOnError: c.StopOnError, MaxDepth: c.maxDepth, MaxEntries: c.maxEntries,
		CountAhead: c.CountAhead, KeepDirLinks: c.keepDirLinks}
	if c.maxDepth == 0 {
		o.MaxDepth = -1
	}
	if c.maxEntries == 0 {
		o.MaxEntries = -1
	}
	if c.Links != "" && c.Links != "preserve" {
		o.Links = transfer.LinkMode(c.Links)
	}
	return o
}
