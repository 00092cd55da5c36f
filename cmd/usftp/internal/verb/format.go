package verb

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/usftp/usftp"
)

// modeString returns a mode as ls -l prints it.
func modeString(s *usftp.FileStat) string {
	return string(typeOf(s).letter) + permissions(s.Mode)
}

// permissions returns a mode's permissions in nine letters.
func permissions(mode uint32) string {
	text := []byte("rwxrwxrwx")
	for i := range text {
		if mode&(1<<(8-i)) == 0 {
			text[i] = '-'
		}
	}
	for i, special := range []byte("sst") {
		if mode&(0o4000>>i) == 0 {
			continue
		}
		at := 3*i + 2
		if text[at] == '-' {
			special -= 'a' - 'A'
		}
		text[at] = special
	}
	return string(text)
}

// octal returns a mode's permissions as for chmod, without the type.
func octal(mode uint32) string { return fmt.Sprintf("%04o", mode&0o7777) }

// human formats a number of bytes as ls -h, du -h and df -h do: in powers of 1024, at most three
// digits, rounded up.
func human(n uint64) string {
	if n < 1024 {
		return strconv.FormatUint(n, 10)
	}
	value := float64(n)
	for _, unit := range "KMGTPE" {
		value /= 1024
		if tenths := math.Ceil(value * 10); tenths < 100 {
			return fmt.Sprintf("%.1f%c", tenths/10, unit)
		} else if whole := math.Ceil(value); whole < 1024 || unit == 'E' {
			return fmt.Sprintf("%.0f%c", whole, unit)
		}
	}
	return ""
}

// recently is the age up to which ls -l prints a file's time with the hour instead of the year:
// half a Gregorian year.
const recently = 31556952 * time.Second / 2

// timeString returns a time as ls -l prints it, in this machine's time zone.
func timeString(s *usftp.FileStat, now time.Time) string {
	if !s.HasTimes() {
		return "           ?"
	}
	t := s.ModTime().Local()
	if age := now.Sub(t); age >= 0 && age < recently {
		return t.Format("Jan _2 15:04")
	}
	return t.Format("Jan _2  2006")
}

// width returns how many columns text takes on a terminal; padLeft and padRight pad it with spaces.
var width, padLeft, padRight = textWidth.StringWidth, textWidth.FillLeft, textWidth.FillRight

// columns writes cells in as many columns as fit, each as wide as its longest cell, filled
// downwards as in ls. plain are the cells without colours, which determine their width.
func columns(j *job, cells, plain []string) {
	if len(cells) == 0 {
		return
	}
	widths := make([]int, len(plain))
	for i, cell := range plain {
		widths[i] = width(cell)
	}
	rows, column := layout(widths, cmp.Or(j.Width, 80))
	for row := range rows {
		if j.over() {
			return
		}
		line := ""
		for at := row; at < len(cells); at += rows {
			line += cells[at]
			if at+rows < len(cells) {
				line += strings.Repeat(" ", column[at/rows]-widths[at])
			}
		}
		j.line(line)
	}
}

// gap is the space between two columns.
const gap = 2

// layout returns the number of rows into which the cells fit, and the width of each column.
func layout(widths []int, total int) (rows int, column []int) {
	most := max(1, total/(1+gap)) // columns
	for columns := min(most, len(widths)); columns > 1; columns-- {
		rows = (len(widths) + columns - 1) / columns
		used := (len(widths) + rows - 1) / rows
		if used != columns {
			continue
		}
		column = make([]int, columns)
		for i, w := range widths {
			column[i/rows] = max(column[i/rows], w+gap)
		}
		sum := -gap
		for _, w := range column {
			sum += w
		}
		if sum <= total {
			return rows, column
		}
	}
	return len(widths), []int{0}
}
