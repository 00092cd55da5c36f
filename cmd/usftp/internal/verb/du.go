package verb

import (
	"context"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// DiskUsageOptions are the options of du.
type DiskUsageOptions struct {
	Summarize bool // -s: only a total for each operand
	Human     bool // -h
	All       bool // -a: files too, not only directories
	Bytes     bool // -b: in bytes instead of units of 1024
	Total     bool // -c: a grand total at the end
	Depth     int  // -d: print only down to this many levels; negative means all
}

// DiskUsage implements du. Version 3 of the protocol has no block counts, so sizes are as with du
// --apparent-size, and a file with several names counts once per name. Links are not followed.
func DiskUsage(ctx context.Context, env *Env, o DiskUsageOptions, names []string) error {
	if o.Summarize {
		o.Depth = 0
	}
	d := &diskUsage{job: env.begin(ctx), o: o}
	d.run(names)
	return d.end()
}

type diskUsage struct {
	*job
	o     DiskUsageOptions
	total uint64

	counted map[string]bool // operands, and whether another one has led to them
}

// A usageLine is one line of --json.
type usageLine struct {
	header
	Path  string `json:"path"`
	Bytes uint64 `json:"bytes"`
}

func (u *diskUsage) run(names []string) {
	found := u.lookup(names, followNever, nil)
	u.counted = make(map[string]bool, len(found))
	for _, e := range found {
		u.counted[operandKey(e.name, e.isDir())] = false
	}
	w := &walk{job: u.job, enter: u.listed, each: u.each, leave: u.leave}
	w.run(found)
	if u.o.Total && !u.over() {
		u.print("total", u.total)
	}
}

// operandKey is the same for two ways to write an operand, unless that leads through "..", before
// which there may be a link.
func operandKey(name string, isDir bool) string {
	if !slices.Contains(strings.Split(name, "/"), "..") {
		name = path.Clean(name)
	}
	if isDir {
		name += "/" // a link that ends in a slash is another file than the link
	}
	return name
}

func (u *diskUsage) each(in *dir, e *entry, below *dir) error {
	if len(u.counted) > 1 || in == nil {
		key := operandKey(pathIn(in, e), below != nil)
		if before, given := u.counted[key]; before {
			return fs.SkipDir
		} else if given {
			u.counted[key] = true
		}
	}
	size := e.stat.Size
	if below != nil {
		below.sum = size
		return nil
	}
	if in == nil {
		u.total += size
		u.print(e.name, size)
		return u.err
	}
	in.sum += size
	if u.o.All && u.deepEnough(in.depth+1) {
		u.print(pathIn(in, e), size)
	}
	return u.err
}

func (u *diskUsage) deepEnough(depth int) bool { return u.o.Depth < 0 || depth <= u.o.Depth }

func (u *diskUsage) leave(d *dir) error {
	if d.parent != nil {
		d.parent.sum += d.sum
	} else {
		u.total += d.sum
	}
	if u.deepEnough(d.depth) {
		u.print(d.path, d.sum)
	}
	return u.err
}

func (u *diskUsage) print(name string, bytes uint64) {
	if u.JSON {
		u.job.print(usageLine{u.header("usage"), name, bytes})
		return
	}
	text := strconv.FormatUint(kibibytes(bytes), 10)
	switch {
	case u.o.Human:
		text = human(bytes)
	case u.o.Bytes:
		text = strconv.FormatUint(bytes, 10)
	}
	u.line(text, "\t", u.shown(u.Prefix+name))
}
