package verb

import (
	"encoding/json"
	"testing"
)

// A program gets back a name that is not UTF-8.
func TestJSONNamesThatAreNotUTF8(t *testing.T) {
	dir := t.TempDir()
	name := "caf\xe9"
	writeFile(t, dir+"/"+name, "")
	r := newRig(startServer(t, dir))
	r.JSON = true
	ok(t, List(t.Context(), r.Env, ListOptions{}, []string{name}))
	out, _ := r.take()
	var object struct {
		Path   string
		Base64 []byte `json:"path_base64"`
	}
	ok(t, json.Unmarshal([]byte(out), &object))
	if object.Path != "caf\ufffd" || string(object.Base64) != name {
		t.Errorf("%s: %+q", out, object)
	}
}
