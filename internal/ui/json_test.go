package ui

import (
	"strings"
	"testing"
)

func TestJSONKeepsNamesThatAreNotUTF8(t *testing.T) {
	type inner struct {
		Path string `json:"path"`
		Size int    `json:"size"`
	}
	type line struct {
		inner
		Target string  `json:"target,omitempty"`
		Other  *string `json:"other,omitempty"`
		Hidden string  `json:"-"`
	}
	for name, c := range map[string]struct {
		object any
		want   string
	}{
		"valid": {line{inner{"é\u009b", 1}, "", nil, "\xff"}, `{"path":"é\u009b","size":1}`},
		"one": {line{inner{"a\xff", 1}, "b", nil, ""},
			`{"path":"a\ufffd","size":1,"target":"b","path_base64":"Yf8="}`},
		"two, by reference": {&line{inner{"\xff", 1}, "\xfe/\n", nil, ""},
			`{"path":"\ufffd","size":1,"target":"\ufffd/\n","path_base64":"/w==",` +
				`"target_base64":"/i8K"}`},
		"no fields": {struct{}{}, `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			var got strings.Builder
			err := WriteJSON(&got, c.object)
			if err != nil || got.String() != c.want+"\n" {
				t.Errorf("%s, %v, want %s", got.String(), err, c.want)
			}
		})
	}
}
