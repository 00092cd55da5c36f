package ui

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// A long object of --json stays one, while other output without a line break is cut.
func TestBoardCutsNoObject(t *testing.T) {
	long := strings.Repeat("long ", mostPartial/4)
	for _, isJSON := range []bool{false, true} {
		var shown strings.Builder
		board := &Board{out: &shown, json: isJSON}
		a := board.App(&App{Stdout: os.Stdout}, "host")
		text, err := json.Marshal(map[string]string{"text": long})
		if err != nil {
			t.Fatal(err)
		}
		for piece := range len(text)/1000 + 1 {
			from := piece * 1000
			if _, err := a.Out.Write(text[from:min(from+1000, len(text))]); err != nil {
				t.Fatal(err)
			}
		}
		a.Out.Write([]byte("\n"))
		if err := a.Out.Close(); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(shown.String(), "\n"), "\n")
		if !isJSON {
			if len(lines) != 2 {
				t.Errorf("%d bytes are %d lines", len(text), len(lines))
			}
			continue
		}
		var object struct{ On, Text string }
		if err := json.Unmarshal([]byte(lines[0]), &object); err != nil || len(lines) != 1 ||
			object.On != "host" || object.Text != long {
			t.Errorf("%d lines, of which the first is no object of the host: %v", len(lines), err)
		}
	}
}
