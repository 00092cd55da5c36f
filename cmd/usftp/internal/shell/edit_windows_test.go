package shell

import "testing"

// TestLocalNameOnWindows: a file whose name is a device's there can be edited.
func TestLocalNameOnWindows(t *testing.T) {
	for name, want := range map[string]string{"/src/aux.c": "file.c", "nul": "file", "con.": "file",
		"auxiliary.c": "auxiliary.c"} {
		if is := localName(name); is != want {
			t.Errorf("localName(%q) is %q, want %q", name, is, want)
		}
	}
}
