package opt

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/usftp/usftp/transfer"
)

// Tree are the flags that say which part of a tree is copied or compared.
type Tree struct {
	Links               string
	Include, Exclude    []string
	DryRun, StopOnError bool
	maxDepth            int
	maxEntries          int64
}

// RegisterBounds adds the flags that limit trees, which could be endless.
func (c *Tree) RegisterBounds(f *pflag.FlagSet) {
	f.IntVar(&c.maxDepth, "max-depth", 256,
		"fail if directories are more than `n` levels deep, as a hostile server could make them; 0 for no limit")
	f.Int64Var(&c.maxEntries, "max-entries", 20_000_000,
		"stop at more than `n` entries; 0 for no limit")
}

// Check checks the flags.
func (c *Tree) Check() error {
	switch {
	case c.Links != "" && c.Links != "preserve" && c.Links != "follow" && c.Links != "skip":
		return fmt.Errorf("--links %s: must be preserve, follow or skip", c.Links)
	case c.maxDepth < 0, c.maxEntries < 0:
		return errors.New("--max-depth and --max-entries must not be negative")
	}
	return nil
}

// TreeOptions returns how directories are copied.
func (c *Tree) TreeOptions() transfer.TreeOptions {
	o := transfer.TreeOptions{Include: c.Include, Exclude: c.Exclude, DryRun: c.DryRun,
		StopOnError: c.StopOnError, MaxDepth: c.maxDepth, MaxEntries: c.maxEntries}
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
