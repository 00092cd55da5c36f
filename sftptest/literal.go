package sftptest

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/usftp/usftp/wire"
)

// String returns the script as a Go literal with the fields that are set. For Intercept it prints
// only the name.
func (s Script) String() string { return "sftptest.Script" + literal(reflect.ValueOf(s)) }

// literal prints the fields of a struct that are not zero.
func literal(v reflect.Value) string {
	var fields []string
	for i := range v.NumField() {
		if field := v.Field(i); !field.IsZero() {
			fields = append(fields, v.Type().Field(i).Name+": "+goValue(field))
		}
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

func goValue(v reflect.Value) string {
	switch value := v.Interface().(type) {
	case time.Duration:
		return strconv.FormatInt(int64(value), 10)
	case wire.Type:
		return goType(value)
	case Action:
		return value.String()
	case Fault: // an element of []Fault
		return literal(v)
	}
	switch v.Kind() {
	case reflect.Func:
		return "a function"
	case reflect.Pointer:
		return "&" + goValue(v.Elem())
	case reflect.Slice:
		elements := make([]string, v.Len())
		for i := range elements {
			elements[i] = goValue(v.Index(i))
		}
		name := v.Type().Elem().String()
		return "[]" + name + "{" + strings.Join(elements, ", ") + "}"
	case reflect.Struct:
		return v.Type().String() + literal(v)
	case reflect.String:
		return fmt.Sprintf("%q", v.String())
	}
	return fmt.Sprint(v.Interface())
}

// goType returns a packet type as its constant.
func goType(t wire.Type) string {
	name := t.String()
	if strings.HasPrefix(name, "packet type") {
		return fmt.Sprintf("wire.Type(%d)", uint8(t))
	}
	var words strings.Builder
	for word := range strings.SplitSeq(name, "_") {
		words.WriteString(word[:1] + strings.ToLower(word[1:]))
	}
	return "wire.Type" + words.String()
}

func goCode(c wire.Code) string { return fmt.Sprintf("wire.Code(%d /* %v */)", uint32(c), c) }
