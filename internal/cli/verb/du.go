package verb

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	"github.com/usftp/usftp"
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

// DiskUsage is du. Version 3 of the protocol has no block counts, so sizes are those of du
// --apparent-size, and a file with several names counts once per name. Links are not followed.
func DiskUsage(ctx context.Context, env *Env, o DiskUsageOptions, names []string) error {
	if o.Summarize {
		o.Depth = 0
	}
	d := &diskUsage{job: env.begin(ctx, "du"), o: o}
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
		u.job.print(usageLine{header{1, "usage", u.Host}, name, bytes})
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

// SpaceOptions are the options of df.
type SpaceOptions struct {
	Human  bool // -h
	Inodes bool // -i
}

// A spaceLine is one line of --json.
type spaceLine struct {
	header
	Path       string `json:"path"`
	Total      uint64 `json:"total"`
	Used       uint64 `json:"used"`
	Available  uint64 `json:"available"`
	Inodes     uint64 `json:"inodes"`
	InodesFree uint64 `json:"inodes_free"`
	ReadOnly   bool   `json:"read_only"`
}

// Space is df. It needs statvfs@openssh.com, which reports neither the device nor the mount point:
// the host's name and the operand are printed instead.
func Space(ctx context.Context, env *Env, o SpaceOptions, names []string) error {
	j := env.begin(ctx, "df")
	rows := [][]string{{"Filesystem", "1K-blocks", "Used", "Available", "Use%", "Path"}}
	if o.Human {
		rows[0][1], rows[0][3] = "Size", "Avail"
	}
	if o.Inodes {
		copy(rows[0][1:], []string{"Inodes", "IUsed", "IFree", "IUse%"})
	}
	var ops pipeline
	for _, name := range names {
		pending := j.client.Async().StatVFS(j.at(name))
		ops.add(func() {
			s, err := pending.Wait()
			switch {
			case err != nil:
				j.fail("get the free space of", name, err)
			case j.JSON:
				used := s.Blocks - min(s.Blocks, s.Bfree)
				j.print(spaceLine{header{1, "space", j.Host}, name, s.Blocks * s.Frsize,
					used * s.Frsize, s.Bavail * s.Frsize, s.Files, s.Ffree, s.Flag&1 != 0})
			default:
				row := append([]string{cmp.Or(j.Host, "-")}, o.columns(s)...)
				rows = append(rows, append(row, j.shown(name)))
			}
		})
	}
	ops.drain()
	if len(rows) > 1 {
		j.table(rows)
	}
	return j.end()
}

// columns returns the total, used and free space of a file system, and how much is used.
func (o SpaceOptions) columns(s *usftp.StatVFS) []string {
	total, left, free := s.Blocks, s.Bfree, s.Bavail
	unit := func(blocks uint64) string { return strconv.FormatUint(kibibytes(blocks*s.Frsize), 10) }
	switch {
	case o.Inodes && o.Human:
		unit = human
	case o.Inodes:
		unit = func(n uint64) string { return strconv.FormatUint(n, 10) }
	case o.Human:
		unit = func(blocks uint64) string { return human(blocks * s.Frsize) }
	}
	if o.Inodes {
		total, left, free = s.Files, s.Ffree, s.Favail
	}
	used := total - min(total, left)
	return []string{unit(total), unit(used), unit(free), percent(used, free)}
}

// kibibytes rounds up.
func kibibytes(bytes uint64) uint64 { return (bytes + 1023) / 1024 }

// percent returns how much of the space available to users is in use, rounded up, as df does.
func percent(used, free uint64) string {
	if used+free == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f%%",
		float64(int64((float64(used)*100+float64(used+free)-1)/float64(used+free))))
}

// table prints rows in columns: the first and last are left-aligned, the others right-aligned.
func (j *job) table(rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], width(cell))
		}
	}
	for _, row := range rows {
		line := padRight(row[0], widths[0])
		for i := 1; i < len(row)-1; i++ {
			line += " " + padLeft(row[i], widths[i])
		}
		j.line(line, " ", row[len(row)-1])
	}
}
