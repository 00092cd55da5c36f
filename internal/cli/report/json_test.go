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
