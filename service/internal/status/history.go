package status

import (
	"fmt"
	"html/template"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/usftp/usftp/internal/ui"
)

const (
	// sampled is the time between samples, and samples how many are kept: six hours of them.
	sampled = 10 * time.Second
	samples = 6 * 3600 / 10

	// points is how many points a graph has.
	points = 180
)

// A sample has the values of the graphs at a moment.
type sample struct{ read, written, sessions float32 }

// history has the samples of the last hours, in memory.
type history struct {
	mu   sync.Mutex
	ring [samples]sample
	n    int // of samples so far
}

func (h *history) add(s sample) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ring[h.n%samples] = s
	h.n++
}

// last returns the stored samples, the oldest first.
func (h *history) last() (all []sample) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := max(0, h.n-samples); i < h.n; i++ {
		all = append(all, h.ring[i%samples])
	}
	return all
}

// graphs returns the graphs of rates and of sessions as SVG.
func (h *history) graphs() (rates, sessions template.HTML) {
	all := h.last()
	rates = graph("Rates", func(n float32) string { return ui.Amount(float64(n)) + "/s" },
		line{"read", values(all, func(s sample) float32 { return s.read })},
		line{"written", values(all, func(s sample) float32 { return s.written })})
	sessions = graph("Sessions", func(n float32) string { return fmt.Sprintf("%.0f", n) },
		line{"sessions", values(all, func(s sample) float32 { return s.sessions })})
	return rates, sessions
}

type line struct {
	name   string
	values []float32
}

// values returns one value for each point of a graph: the largest of the samples that fall on it,
// so that no peak is lost.
func values(all []sample, of func(sample) float32) (made []float32) {
	const each = samples / points
	for i := 0; i < len(all); i += each {
		made = append(made, 0)
		for _, s := range all[i:min(i+each, len(all))] {
			made[len(made)-1] = max(made[len(made)-1], of(s))
		}
	}
	return made
}

// graph draws lines. All text in it is our own.
func graph(title string, say func(float32) string, lines ...line) template.HTML {
	const width, height = 720, 120
	top := float32(0)
	for _, l := range lines {
		top = max(top, slices.Max(append([]float32{0}, l.values...)))
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<figure><figcaption>%s, at most %s`, title, say(top))
	for _, l := range lines {
		now := float32(0)
		if len(l.values) > 0 {
			now = l.values[len(l.values)-1]
		}
		fmt.Fprintf(&b, ` <span class="line-%s">%s %s</span>`, l.name, l.name, say(now))
	}
	fmt.Fprintf(&b, `</figcaption><svg viewBox="0 0 %d %d" role="img" aria-label="%s of the last `+
		`6 hours"><line class="axis" x1="0" y1="%d" x2="%d" y2="%d"/>`, width, height+2, title,
		height+1, width, height+1)
	for _, l := range lines {
		fmt.Fprintf(&b, `<polyline class="line-%s" points="`, l.name)
		for i, v := range l.values {
			x := width - float64(len(l.values)-1-i)*width/(points-1)
			y := height - float64(v/max(top, 1))*(height-2)
			fmt.Fprintf(&b, "%.1f,%.1f ", x, y)
		}
		b.WriteString(`"/>`)
	}
	b.WriteString(`</svg></figure>`)
	return template.HTML(b.String())
}
