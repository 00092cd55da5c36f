package verb

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	"github.com/usftp/usftp"
)

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

// Space implements df. It needs statvfs@openssh.com, which reports neither the device nor the mount
// point: the host's name and the operand are printed instead.
func Space(ctx context.Context, env *Env, o SpaceOptions, names []string) error {
	j := env.begin(ctx)
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
				j.print(spaceLine{j.header("space"), name, s.Blocks * s.Frsize,
					used * s.Frsize, s.Bavail * s.Frsize, s.Files, s.Ffree, s.Flag&1 != 0})
			default:
				row := append([]string{cmp.Or(j.Host, "-")}, o.columns(s)...)
				rows = append(rows, append(row, j.shown(name)))
			}
		})
	}
	ops.drain()
	if len(rows) > 1 {
		table(j, rows)
	}
	return j.end()
}

// columns returns a file system's total, used and free space, and the used percentage.
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

// percent returns the used share of the space available to users, rounded up, as df does.
func percent(used, free uint64) string {
	if used+free == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f%%",
		float64(int64((float64(used)*100+float64(used+free)-1)/float64(used+free))))
}

// table prints rows in columns: the first and last are left-aligned, the others right-aligned.
func table(j *job, rows [][]string) {
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
