package report

import (
	"fmt"
	"math"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/mattn/go-runewidth"

	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/transfer"
)

// A progressLine is the line for one file on a terminal: name, percent, bytes of bytes, rate, time
// left. A nil one does nothing.
type progressLine struct {
	console *ui.Console

	mu    sync.Mutex
	name  string
	size  int64 // -1 if unknown
	meter meter
	lost  bool   // there is no connection at the moment
	stall string // the consequence of a host that sends nothing
	ended bool
	good  bool
	took  time.Duration // valid in the end

	phase   transfer.Phase // the activity while no data arrives; "" before all has arrived
	checked int64          // bytes hashed or verified; 0 if unknown

	tree  *transfer.Totals // nil for one file
	root  string           // the tree's source
	small string           // the latest small file started, which stands for all in flight
}

func startLine(c *ui.Console, e transfer.Event) *progressLine {
	l := &progressLine{console: c, name: ui.Printable(path.Base(sourceOf(e))), size: e.Size}
	if e.Tree {
		l.root, l.size = e.Source, -1
		l.update(e)
	}
	c.Show(l.text)
	return l
}

// update shows the progress of an event.
func (l *progressLine) update(e transfer.Event) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.Kind == transfer.Retried || e.Kind == transfer.Renewed {
		l.lost, l.stall = e.Wait > 0, ""
		return
	}
	l.stall = ""
	if e.Stalled > 0 {
		l.stall = e.Message
	}
	l.phase, l.checked = e.Phase, e.Checked
	if t := e.Totals; t != nil {
		l.tree = t
		// files that were up to date need not be copied
		if t.Complete {
			l.size = t.PlannedBytes - t.KeptBytes
		} else if t.CountedFiles > 0 {
			l.size = max(t.CountedBytes, t.PlannedBytes) - t.KeptBytes
		}
	}
	l.meter.skip(resumedOf(e))
	l.meter.add(e.Bytes, e.Elapsed-e.Paused)
}

// began notes that a file of a tree has begun.
func (l *progressLine) began(source string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.small = source
}

// finish leaves the line on the screen, and starts the next one below it.
func (l *progressLine) finish(e transfer.Event) {
	if l == nil {
		return
	}
	l.update(e)
	l.mu.Lock()
	l.meter.finish(e.Bytes, e.Elapsed-e.Paused)
	l.ended, l.good, l.took = true, e.Err == nil, e.Elapsed
	l.mu.Unlock()
	l.console.Hide()
}

// text returns the lines for a terminal of this width.
func (l *progressLine) text(width int) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	width-- // a full line would wrap on some terminals
	lines := []string{l.line(width)}
	below := l.files()
	if l.stall != "" && !l.ended {
		below = l.stall
	}
	if below != "" {
		lines = append(lines, runewidth.Truncate("  "+below, max(0, width), "..."))
	}
	return lines
}

// files names the files of a tree that are being copied, relative to its source: the large ones, or
// else a small one.
func (l *progressLine) files() string {
	if l.tree == nil || l.ended {
		return ""
	}
	names := l.tree.Active
	if len(names) == 0 {
		names = []string{l.small}
	}
	short := make([]string, len(names))
	for i, name := range names {
		short[i] = strings.TrimLeft(strings.TrimPrefix(name, l.root), `/\`)
	}
	return ui.Printable(strings.Join(short, ", "))
}

// line returns the first line. It uses the available width; if that is short, the name is shortened
// first.
func (l *progressLine) line(width int) string {
	files, fields := l.numbers()
	numbers := fmt.Sprintf("%s%4s %20s ", files, fields[0], fields[1])
	if fields[2] == "" {
		numbers += fmt.Sprintf("%22s", fields[3])
	} else {
		numbers += fmt.Sprintf("%11s %10s", fields[2], fields[3])
	}
	room := width - runewidth.StringWidth(numbers) - 1
	if room < 4 { // then show no columns
		numbers = strings.Join(strings.Fields(numbers), " ")
		room = width - runewidth.StringWidth(numbers) - 1
	}
	if room < 4 {
		return fitting(append([]string{strings.TrimSpace(files)}, fields[:]...), width)
	}
	name := runewidth.Truncate(l.name, room, "...")
	return name + strings.Repeat(" ", room-runewidth.StringWidth(name)+1) + numbers
}

// fitting returns the fields that fit, in their order. It cuts none: half a number is wrong.
func fitting(fields []string, width int) (line string) {
	for _, field := range fields {
		if longer := strings.TrimSpace(line + " " + field); len(longer) <= width {
			line = longer
		}
	}
	return line
}

// numbers returns the count of files, for a tree, and percent, bytes, rate and time; instead of the
// last two, why no data arrives.
func (l *progressLine) numbers() (files string, fields [4]string) {
	m := &l.meter
	percent, total, rate, last := "", "", ui.Amount(m.rate)+"/s", ""
	if l.size >= 0 {
		percent = fmt.Sprintf("%d%%", percentOf(m.bytes, l.size))
		total = " of " + ui.Amount(float64(l.size))
	}
	switch {
	case l.ended && l.good:
		last = "in " + ui.Clock(l.took)
	case l.ended:
		last = "stopped"
	case l.lost:
		rate, last = "", "offline"
	case l.stall != "":
		rate, last = "", "stalled"
	case l.phase != "" && (l.tree == nil || m.rate <= 0 || m.bytes == l.size):
		rate, last = "", string(l.phase)
		if l.checked > 0 {
			last += fmt.Sprintf(" %d%%", percentOf(l.checked, m.bytes))
		}
	case m.rate <= 0 && m.elapsed > stalledAfter:
		last = "stalled"
	case l.size >= 0 && m.rate > 0:
		last = ui.Clock(time.Duration(min(float64(max(0, l.size-m.bytes))/m.rate,
			math.MaxInt32)*float64(time.Second))) + " left"
	}
	if l.tree != nil {
		files = fmt.Sprintf("%d of %d", l.tree.Files+l.tree.Kept,
			max(l.tree.PlannedFiles, l.tree.CountedFiles))
		if !l.tree.Complete && l.tree.CountedFiles == 0 {
			files += "+"
		}
		files = fmt.Sprintf("%15s files ", files)
	}
	return files, [4]string{percent, ui.Amount(float64(m.bytes)) + total,
		rate, last}
}

// percentOf returns 100 only when all bytes have arrived.
func percentOf(bytes, size int64) int {
	if bytes >= size {
		return 100
	}
	return int(float64(bytes) / float64(size) * 100)
}

// A meter derives a rate from bytes and times: over the last seconds, so that it follows changes,
// and at the end over the whole copy.
type meter struct {
	bytes   int64
	elapsed time.Duration
	rate    float64       // bytes a second
	moved   time.Duration // when data last arrived
	from    time.Duration // the time of the beginning, or of the end of a stall
	skipped int64         // the part of bytes that was copied earlier
}

// skip excludes bytes sent by an earlier copy from the rate.
func (m *meter) skip(bytes int64) {
	m.bytes += bytes - m.skipped
	m.skipped = bytes
}

// resumedOf returns how many of an event's bytes an earlier copy had sent.
func resumedOf(e transfer.Event) int64 {
	if e.Totals != nil {
		return e.Totals.Resumed
	}
	return e.Resumed
}

const (
	rateOver     = 3 * time.Second // roughly how far back the rate looks
	stalledAfter = 5 * time.Second
)

func (m *meter) add(bytes int64, elapsed time.Duration) {
	dt := elapsed - m.elapsed
	if dt < 0 { // the time before a connection was lost turns out to be a pause
		m.bytes, m.elapsed, m.moved, m.from = bytes, elapsed, elapsed, elapsed
	}
	if dt <= 0 {
		return
	}
	now := float64(max(0, bytes-m.bytes)) / dt.Seconds()
	// At first, and after a stall, the rate covers all data since: otherwise a slow first moment would
	// weigh on it for seconds.
	weight := max(1-math.Exp(-float64(dt)/float64(rateOver)),
		float64(dt)/float64(elapsed-m.from))
	m.rate += weight * (now - m.rate)
	if bytes > m.bytes {
		m.moved = elapsed
	} else if elapsed-m.moved > stalledAfter {
		m.rate, m.from = 0, elapsed
	}
	m.bytes, m.elapsed = bytes, elapsed
}

func (m *meter) finish(bytes int64, elapsed time.Duration) {
	m.bytes, m.elapsed = bytes, elapsed
	if elapsed > 0 {
		m.rate = float64(max(0, bytes-m.skipped)) / elapsed.Seconds()
	}
}
