package report

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/usftp/usftp/transfer"
)

// A program gets back the names of an event that are not UTF-8.
func TestEventsOfNamesThatAreNotUTF8(t *testing.T) {
	var out bytes.Buffer
	source, target := "/tmp/caf\xe9", "caf\u00e9"
	(&eventWriter{out: &out}).Event(transfer.Event{Kind: transfer.Started,
		Route: transfer.Route{Source: source, Target: target}, Size: 7})
	var object map[string]any
	if err := json.Unmarshal(out.Bytes(), &object); err != nil {
		t.Fatal(err)
	}
	if object["source"] != "/tmp/caf\ufffd" || object["source_base64"] != "L3RtcC9jYWbp" ||
		object["target"] != target || object["target_base64"] != nil {
		t.Errorf("%s", &out)
	}
}

// A file and a tree say what limited their speed by the name that the manual gives.
func TestBottleneckInJSON(t *testing.T) {
	var out bytes.Buffer
	w := &eventWriter{out: &out}
	w.Event(transfer.Event{Kind: transfer.Done,
		Outcome: transfer.Outcome{Bottleneck: transfer.BottleneckRateLimit}})
	w.Event(transfer.Event{Kind: transfer.Ended, Tree: true, Totals: new(transfer.Totals),
		Outcome: transfer.Outcome{Bottleneck: transfer.BottleneckDisk}})
	var file, tree struct {
		Bottleneck string
		Totals     struct{ Bottleneck string }
	}
	lines := json.NewDecoder(&out)
	if err := lines.Decode(&file); err != nil || file.Bottleneck != "limit" {
		t.Errorf("%+v, %v", file, err)
	}
	if err := lines.Decode(&tree); err != nil || tree.Totals.Bottleneck != "disk" {
		t.Errorf("%+v, %v", tree, err)
	}
}
