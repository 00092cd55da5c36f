package verb

import (
	"context"
	"strconv"
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
}

// A usageLine is one line of --json.
type usageLine struct {
	header
	Path  string `json:"path"`
	Bytes uint64 `json:"bytes"`
}

func (u *diskUsage) run(names []string) {
	found := u.lookup(names, followNever, nil)
	w := &walk{job: u.job, enter: u.listed, each: u.each, leave: u.leave}
	w.run(found)
	if u.o.Total && !u.over() {
		u.print("total", u.total)
	}
}

func (u *diskUsage) each(in *dir, e *entry, below *dir) error {
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
