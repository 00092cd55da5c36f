package ui

import (
	"encoding/json"
	"testing"
	"time"
)

func TestPrintable(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain näme ☃":           "plain näme ☃",
		"a\x1b[2Jb":              `a\x1b[2Jb`,
		"title\x1b]0;x\a":        `title\x1b]0;x\x07`,
		"line\nline\r\t":         `line\nline\r\t`,
		"csi\u009b1m":            `csi\x9b1m`,
		"bad \xff\xc3":           `bad \xff\xc3`,
		"right\u202eto left":     `right\u202eto left`,
		"tag \U000e0041":         `tag \U000e0041`,
		"\ufffd is a character":  "\ufffd is a character",
		"del\x7f":                `del\x7f`,
		"no-break\u00a0space":    `no-break\xa0space`,
		"zero\u200bwidth\ufeffs": `zero\u200bwidth\ufeffs`,
	} {
		if got := Printable(in); got != want {
			t.Errorf("printable(%q) = %q, want %q", in, got, want)
		}
	}
	if got, want := printableLines("one\r\ntwo\x1b\n"), "one\ntwo\\x1b\n"; got != want {
		t.Errorf("printableLines gives %q, want %q", got, want)
	}
}

func TestAmount(t *testing.T) {
	t.Parallel()
	for n, want := range map[float64]string{
		0: "0 B", 999: "999 B", 1000: "1.00 kB", 9994: "9.99 kB", 9996: "10.0 kB",
		99_949: "99.9 kB", 99_951: "100 kB", 999_499: "999 kB",
		999_501: "1.00 MB", 1 << 30: "1.07 GB", 1e15: "1.00 PB", 5e18: "5 EB",
	} {
		if got := Amount(n); got != want {
			t.Errorf("amount(%v) = %q, want %q", n, got, want)
		}
	}
}

func TestClock(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "00:00", 1499 * time.Millisecond: "00:01", 61 * time.Second: "01:01",
		3661 * time.Second: "1:01:01", 101 * time.Hour: "4d",
	} {
		if got := Clock(d); got != want {
			t.Errorf("clock(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestEscapeJSON(t *testing.T) {
	t.Parallel()
	text := "é\u009bx\x7f\u202egpj.exe\u2066\U000e0001"
	escaped := EscapeJSON([]byte(`{"a":"` + text + `"}`))
	if want := `{"a":"é\u009bx\u007f\u202egpj.exe\u2066\udb40\udc01"}`; string(escaped) != want {
		t.Errorf("got %s, want %s", escaped, want)
	}
	var back struct{ A string }
	if err := json.Unmarshal(escaped, &back); err != nil || back.A != text {
		t.Errorf("it means %q, %v", back.A, err)
	}
}
