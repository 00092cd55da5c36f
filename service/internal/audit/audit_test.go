package audit

import (
	"strings"
	"testing"
	"time"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/service/internal/store"
	"github.com/usftp/usftp/wire"
)

// TestCells: no value of CSV is a formula, whatever a client calls a file or itself.
func TestCells(t *testing.T) {
	for value, want := range map[string]string{
		"/a.xml":         "/a.xml",
		"=1+1":           "'=1+1",
		"+1":             "'+1",
		"-1":             "'-1",
		"@SUM(A1)":       "'@SUM(A1)",
		"\t=1":           `\t=1`,
		"  =1":           "'  =1",
		"＝1":             "'＝1",
		"a\r\n=1":        `a\r\n=1`,
		"\x1b]0;x\a":     `\x1b]0;x\x07`,
		"a\u202eb":       `a\u202eb`,
		"|cmd":           "'|cmd",
		"ann,\"b\"":      "ann,\"b\"",
		"\u00a0=1":       `\xa0=1`,
		"not\xffUTF-8":   `not\xffUTF-8`,
		"":               "",
		"SHA256:+/=abcd": "SHA256:+/=abcd",
	} {
		if got := cell(value); got != want {
			t.Errorf("%q is %q, want %q", value, got, want)
		}
	}
	var b strings.Builder
	w := CSV(&b)
	if err := w.Write(store.Record{Kind: "logged in", User: "=1"}); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil || !strings.Contains(b.String(), ",'=1,") {
		t.Errorf("%v, %q", err, b.String())
	}
}

// TestTooMuch: neither strangers nor a user who does nothing else fill the store, others are
// recorded all the same, and the trail says how much it lacks.
func TestTooMuch(t *testing.T) {
	var kept []store.Record
	trail := New(func(r store.Record) { kept = append(kept, r) })
	now := time.Now()
	for range 200_000 {
		trail.Event(server.Event{Kind: server.LoginFailed, Time: now, User: "ann"})
		trail.Event(server.Event{Kind: server.FileClosed, Time: now, User: "bob", Path: "/f"})
	}
	if len(kept) != 101_000 {
		t.Fatalf("%d records", len(kept))
	}
	kept = nil
	trail.Event(server.Event{Kind: server.LoggedIn, Time: now, User: "ann"})
	trail.Event(server.Event{Kind: server.FileClosed, Time: now.Add(time.Second), User: "bob"})
	if len(kept) != 3 || kept[0].User != "ann" || kept[1].Kind != LeftOut ||
		kept[1].Count != 100_000 || kept[1].User != "bob" || kept[2].Kind != "file closed" {
		t.Errorf("then %+v", kept)
	}
}

// TestWhatIsRecorded: what clients send is cut, and kept as it is if it is no text. What every copy
// does besides is left out, as are load balancers' checks.
func TestWhatIsRecorded(t *testing.T) {
	var kept []store.Record
	trail := New(func(r store.Record) { kept = append(kept, r) })
	times := &wire.Attrs{Flags: wire.AttrACModTime}
	mode := &wire.Attrs{Flags: wire.AttrPermissions, Permissions: 0o100600}
	for _, e := range []server.Event{
		{Kind: server.TreeChanged, Attrs: times},
		{Kind: server.FileOpened},
		{Kind: server.LoginFailed, Check: true},
		{Kind: server.TreeChanged, Request: "setstat", Attrs: mode, Path: "/\xff", User: "u",
			Client: strings.Repeat("x", 1<<20)},
	} {
		trail.Event(e)
	}
	if len(kept) != 1 || kept[0].Details != "mode 0600" || string(kept[0].PathBytes) != "/\xff" ||
		len(kept[0].Client) != longestText {
		t.Errorf("%+v", kept)
	}
}
