package ui

import (
	"encoding/json"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"
)

// WriteJSON writes an object of --json, a struct, as a line. It escapes characters that a terminal
// might obey. JSON is UTF-8, but names need not be: a string field that is not UTF-8 gets another
// field beside it, with "_base64" after its name, which has its bytes.
func WriteJSON(w io.Writer, object any) error {
	text, err := json.Marshal(object)
	if err != nil {
		return err
	}
	raw := make(map[string][]byte)
	notUTF8(reflect.ValueOf(object), raw)
	if len(raw) > 0 {
		more, _ := json.Marshal(raw)
		text = append(append(text[:len(text)-1], ','), more[1:]...)
	}
	_, err = w.Write(append(EscapeJSON(text), '\n'))
	return err
}

// notUTF8 collects the string fields of a struct, and of structs embedded in it, that are not valid
// UTF-8.
func notUTF8(object reflect.Value, raw map[string][]byte) {
	for object.Kind() == reflect.Pointer {
		object = object.Elem()
	}
	if object.Kind() != reflect.Struct {
		return
	}
	for field, value := range object.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous && name == "":
			notUTF8(value, raw)
		case value.Kind() == reflect.String && name != "" && name != "-" &&
			!utf8.ValidString(value.String()):
			raw[name+"_base64"] = []byte(value.String())
		}
	}
}
