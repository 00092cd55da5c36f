package connect

import "testing"

func TestWithin(t *testing.T) {
	for dir, want := range map[string]string{
		"d": "d/", "d/": "d/", "/": "/", ".": "./", "a/b": "a/b/", "": "",
	} {
		if is := Within(dir); is != want {
			t.Errorf("Within(%q) is %q, want %q", dir, is, want)
		}
	}
}
