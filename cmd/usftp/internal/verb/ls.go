package verb

import (
	"cmp"
	"context"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/ui"
)

// ListOptions are the options of ls.
type ListOptions struct {
	Long      bool // -l
	All       bool // -a: names that begin with a dot, "." and ".."
	AlmostAll bool // -A: names that begin with a dot
	Recursive bool // -R
	Human     bool // -h
	Directory bool // -d: directories themselves, not their contents
	Numeric   bool // -n: numeric owners with -l
	Classify  bool // -F: append a character that shows the type
	Slash     bool // -p: append a slash to directories
	Reverse   bool // -r
	Sort      ListSort
	Columns   bool // names in columns unless Long; otherwise one per line
}

// ListSort is the order of ls.
type ListSort int

// The orders of ls.
const (
	SortByName ListSort = iota
	SortByTime          // -t, newest first
	SortBySize          // -S, largest first
	SortNone            // -U, in the server's order
)

// List implements ls. Without operands it lists ".". The exit code is 2 if an operand cannot be
// listed, and 1 if a file below one cannot.
func List(ctx context.Context, env *Env, o ListOptions, names []string) error {
	if len(names) == 0 {
		names = []string{"."}
	}
	l := &lister{job: env.begin(ctx), o: o, several: len(names) > 1 || o.Recursive ||
		env.Prefix != ""}
	l.list(names)
	return l.end()
}

// lister is one run of ls.
type lister struct {
	*job
	o       ListOptions
	several bool // several directories are listed
	printed bool // there was output, so the next directory needs a blank line before it
}

func (l *lister) list(names []string) {
	// As in GNU's ls: an operand that is a link to a directory is followed, except with -l, -d or -F.
	follow := followToDir
	if l.o.Long || l.o.Directory || l.o.Classify {
		follow = followNever
	}
	found := l.lookup(names, follow, func(name string, err error) {
		l.fail("access", name, err)
		l.code = 2
	})
	if l.over() {
		return
	}
	var files, dirs []*entry
	for _, e := range found {
		if e.isDir() && !l.o.Directory {
			dirs = append(dirs, e)
		} else {
			files = append(files, e)
		}
	}
	order := l.order()
	slices.SortStableFunc(files, order)
	slices.SortStableFunc(dirs, order)
	l.prepare(nil, files)
	l.show(files)
	w := &walk{job: l.job, order: order, prepare: l.prepare, enter: l.enter,
		descend: func(d *dir) bool {
			return d.depth == 0 || l.o.Recursive && l.wants(d.entry.name)
		},
		each: func(in *dir, e *entry, below *dir) error {
			if in != nil && (!l.o.Recursive || !l.wants(e.name)) {
				return fs.SkipDir
			}
			return nil
		},
	}
	w.run(dirs)
}

// wants reports whether a name is shown.
func (l *lister) wants(name string) bool {
	return l.o.All || l.o.AlmostAll || !strings.HasPrefix(name, ".")
}

// order returns the order of the entries of a directory.
func (l *lister) order() func(a, b *entry) int {
	by := byName
	switch l.o.Sort {
	case SortByTime:
		by = func(a, b *entry) int {
			return cmp.Or(b.stat.ModTime().Compare(a.stat.ModTime()), byName(a, b))
		}
	case SortBySize:
		by = func(a, b *entry) int {
			return cmp.Or(cmp.Compare(b.stat.Size, a.stat.Size), byName(a, b))
		}
	case SortNone:
		return func(a, b *entry) int { return 0 }
	}
	if l.o.Reverse {
		return func(a, b *entry) int { return by(b, a) }
	}
	return by
}

// prepare asks for attributes that a listing lacks: the targets of links, and the names of owners.
func (l *lister) prepare(d *dir, entries []*entry) {
	dirPath := func(e *entry) string {
		if d == nil {
			return l.at(e.name)
		}
		return l.at(below(d.path, e.name))
	}
	shown := entries
	if d != nil {
		shown = slices.DeleteFunc(slices.Clone(entries),
			func(e *entry) bool { return !l.wants(e.name) })
	}
	if (l.o.Long || l.JSON) && !l.o.Numeric {
		l.names.learn(l.ctx, l.client, shown)
	}
	links := slices.DeleteFunc(slices.Clone(shown), func(e *entry) bool { return !e.isLink() })
	if l.o.Long || l.JSON {
		l.readLinks(links, dirPath)
	}
	if (l.Colors.followLinks() || l.o.Long && l.o.Classify) && !l.JSON {
		for r := range usftp.Batch(slices.Values(links),
			0, func(e *entry) *usftp.Pending[fs.FileInfo] {
				return l.client.Async().Stat(dirPath(e))
			}) {
			if r.Item.broken = r.Err != nil; r.Err == nil {
				stat := statOf(r.Value)
				r.Item.targetStat = &stat
			}
		}
	}
}

// readLinks asks for the targets of links.
func (j *job) readLinks(links []*entry, path func(e *entry) string) {
	for r := range usftp.Batch(slices.Values(links), 0, func(e *entry) *usftp.Pending[string] {
		return j.client.Async().ReadLink(path(e))
	}) {
		if r.Err == nil {
			r.Item.target = r.Value
		}
	}
}

// enter prints a directory.
func (l *lister) enter(d *dir, entries []*entry) error {
	if d.Err != nil {
		if l.fail("list", d.path, d.Err); d.depth == 0 {
			l.code = 2
		}
		if err := l.stopped(); err != nil {
			return err
		}
	}
	if l.JSON {
		l.showJSON(d, entries)
		return l.err
	}
	if d.Err != nil && len(entries) == 0 {
		return l.err
	}
	if l.printed {
		l.line()
	}
	if l.printed = true; l.several {
		l.line(l.shown(l.Prefix+d.path), ":")
	}
	shown := slices.DeleteFunc(slices.Clone(entries),
		func(e *entry) bool { return !l.wants(e.name) })
	if l.o.All {
		shown = l.withDots(d, shown)
	}
	l.show(shown)
	return l.err
}

// withDots adds "." and "..", which listings leave out.
func (l *lister) withDots(d *dir, entries []*entry) []*entry {
	dot := &entry{name: ".", stat: d.entry.stat}
	up := &entry{name: ".."}
	if d.parent != nil {
		up.stat = d.parent.entry.stat
	} else if info, err := l.client.Lstat(l.at(below(d.path, ".."))); err == nil {
		up.stat = statOf(info)
		l.names.learn(l.ctx, l.client, []*entry{dot, up})
	}
	entries = append([]*entry{dot, up}, entries...)
	slices.SortStableFunc(entries, l.order())
	return entries
}

// show prints files.
func (l *lister) show(entries []*entry) {
	switch {
	case len(entries) == 0:
		return
	case l.JSON:
		l.showJSON(nil, entries)
		return
	}
	l.printed = true
	switch {
	case l.o.Long:
		l.showLong(entries)
	case l.o.Columns:
		cells, plain := make([]string, len(entries)), make([]string, len(entries))
		for i, e := range entries {
			shown := l.shown(l.withPrefix(e.name))
			plain[i] = shown + l.mark(&e.stat)
			cells[i] = l.Colors.paint(e, shown) + l.mark(&e.stat)
		}
		columns(l.job, cells, plain)
	default:
		for _, e := range entries {
			if l.over() {
				return
			}
			l.line(l.Colors.paint(e, l.shown(l.withPrefix(e.name))), l.mark(&e.stat))
		}
	}
}

// withPrefix puts the host in front of an operand if there are several hosts.
func (l *lister) withPrefix(name string) string {
	if strings.Contains(name, "/") {
		return l.Prefix + name
	}
	return name
}

// mark returns the character that -F or -p appends to a name.
func (l *lister) mark(s *usftp.FileStat) string {
	if !s.HasType() || !l.o.Classify && !l.o.Slash {
		return ""
	}
	kind := s.Mode & typeMask
	switch {
	case kind == typeDir:
		return "/"
	case !l.o.Classify:
		return ""
	case kind == typeLink:
		return "@"
	case kind == typeFIFO:
		return "|"
	case kind == typeSocket:
		return "="
	case kind == typeFile && s.Mode&0o111 != 0:
		return "*"
	}
	return ""
}

// A longRow holds the columns that ls -l aligns.
type longRow struct{ user, group, size string }

func (j *job) longRow(e *entry, numeric, readable bool) longRow {
	user, group := j.names.of(&e.stat, numeric)
	// Made safe, because a server could send a name with a line break.
	r := longRow{ui.Printable(user), ui.Printable(group), "?"}
	switch {
	case !e.stat.HasSize():
	case readable:
		r.size = human(e.stat.Size)
	default:
		r.size = strconv.FormatUint(e.stat.Size, 10)
	}
	return r
}

// longLine returns the line of ls -l for a file. Version 3 has no link counts, so as in sftp it
// shows a "?".
func longLine(e *entry, r longRow, users, groups, sizes int, now time.Time, name string) string {
	return modeString(&e.stat) + " ? " + padRight(r.user, users) + " " + padRight(r.group, groups) +
		" " + padLeft(r.size, sizes) + " " + timeString(&e.stat, now) + " " + name
}

// showLong prints files as ls -l does.
func (l *lister) showLong(entries []*entry) {
	rows := make([]longRow, len(entries))
	var users, groups, sizes int
	for i, e := range entries {
		r := l.longRow(e, l.o.Numeric, l.o.Human)
		rows[i] = r
		users, groups = max(users, width(r.user)), max(groups, width(r.group))
		sizes = max(sizes, len(r.size))
	}
	now := l.now()
	for i, e := range entries {
		if l.over() {
			return
		}
		tail := l.mark(&e.stat)
		if e.isLink() {
			tail = ""
			if e.target != "" {
				tail = " -> " + l.targetOf(e)
			}
		}
		l.line(longLine(e, rows[i], users, groups, sizes, now,
			l.Colors.paint(e, l.shown(e.name))+tail))
	}
}

// targetOf returns a link's target for printing.
func (l *lister) targetOf(e *entry) string {
	shown := l.shown(e.target)
	if e.broken {
		return l.Colors.wrap(l.Colors.missing(), shown)
	} else if e.targetStat == nil {
		return shown
	}
	mark := ""
	if l.o.Classify {
		mark = l.mark(e.targetStat)
	}
	return l.Colors.paint(&entry{name: e.target, stat: *e.targetStat}, shown) + mark
}

// showJSON prints a directory's entries, or operands, as JSON.
func (l *lister) showJSON(d *dir, entries []*entry) {
	for _, e := range entries {
		name := e.name
		if d != nil {
			if !l.wants(name) {
				continue
			}
			name = strings.TrimPrefix(below(d.path, name), "./")
		}
		l.printFile(name, e)
	}
}
