package main

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"
)

func TestChartIsXML(t *testing.T) {
	text := drawBars([]barGroup{{"get <&>", []bar{{label: "one & two", value: "1 <", length: 1,
		ours: true}, {label: "three", length: 0.5}, {label: "four", length: 1, ceiling: true}}}})
	decoder := xml.NewDecoder(strings.NewReader(text))
	var widths []string
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if element, ok := token.(xml.StartElement); ok && element.Name.Local == "rect" {
			for _, attribute := range element.Attr {
				if attribute.Name.Local == "width" {
					widths = append(widths, attribute.Value)
				}
			}
		}
	}
	if got := strings.Join(widths, " "); got != "410.0 205.0 410.0" {
		t.Errorf("widths of the bars: %s", got)
	}
}

// usftp comes first, then the best peers and scp, then the ceiling.
func TestOrderOfBars(t *testing.T) {
	dir := t.TempDir()
	writeRuns(t, dir, session, getRun("ssh cat", 1, 200, 0.5), getRun("scp", 1, 50, 2),
		getRun("sftp", 1, 40, 2), getRun("lftp", 1, 60, 2), getRun("scp -O", 1, 80, 2),
		getRun("rclone", 1, 70, 2), getRun("usftp cp", 1, 100, 1))
	r, err := load(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, b := range r.rows[0].bars(0) {
		got = append(got, b.label+" "+b.value)
	}
	const want = "usftp 2.0 x scp, 105 MB/s; scp -O 1.60 x scp, 84 MB/s; " +
		"rclone 1.40 x scp, 73 MB/s; scp 52 MB/s; ssh cat (ceiling) 4.0 x scp, 210 MB/s"
	if strings.Join(got, "; ") != want {
		t.Errorf("bars: %s", strings.Join(got, "; "))
	}
}

// The contrast follows the Web Content Accessibility Guidelines, section 1.4: 3 for graphics
// and, since the type is small, more for text.
func TestChartOnLightAndDark(t *testing.T) {
	luminance := func(colour string) float64 {
		sum := 0.0
		for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
			n, err := strconv.ParseUint(colour[1+2*i:3+2*i], 16, 8)
			if err != nil {
				t.Fatal(err)
			}
			c := float64(n) / 255
			if c <= 0.04045 {
				sum += weight * c / 12.92
			} else {
				sum += weight * math.Pow((c+0.055)/1.055, 2.4)
			}
		}
		return sum + 0.05
	}
	for colour, least := range map[string]float64{textColour: 4, peerColour: 3, oursColour: 3} {
		for _, page := range []string{"#ffffff", "#0d1117"} {
			one, other := luminance(colour), luminance(page)
			if got := max(one, other) / min(one, other); got < least {
				t.Errorf("%s on %s: contrast %.2f, want %.1f", colour, page, got, least)
			}
		}
	}
}
