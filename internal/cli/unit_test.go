package cli

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/usftp/usftp/server/sshd"
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
		if got := printable(in); got != want {
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
		0: "0 B", 999: "999 B", 1000: "1.00 kB", 9994: "9.99 kB", 9996: "10.0 kB", 99_949: "99.9 kB", 99_951: "100 kB", 999_499: "999 kB",
		999_501: "1.00 MB", 1 << 30: "1.07 GB", 1e15: "1.00 PB", 5e18: "5 EB",
	} {
		if got := amount(n); got != want {
			t.Errorf("amount(%v) = %q, want %q", n, got, want)
		}
	}
}

func TestRateFlag(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"8192": 1 << 20, "1": 128, "10MB": 10e6, "10MB/s": 10e6, "1.5MiB": 1536 << 10, "500kB": 500e3,
		"10Mbit": 10e6 / 8, "10Mbit/s": 10e6 / 8, "2.5Gbit": 2.5e9 / 8, "800kbit": 100e3, "104857600": 100 << 30 / 8,
	} {
		var rate rateFlag
		if err := rate.Set(text); err != nil || int64(rate) != want {
			t.Errorf("%q is %d, %v, want %d", text, rate, err, want)
		}
	}
	for _, text := range []string{"", "0", "-5", "10M", "10m", "fast", "MB", "bit", "1e99GB", "NaNMbit", "104857601",
		"10MBit/h", "0.1kbit/s/s", "-1Mbit", "1.5"} {
		if err := new(rateFlag).Set(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

func TestClock(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "00:00", 1499 * time.Millisecond: "00:01", 61 * time.Second: "01:01", 3661 * time.Second: "1:01:01", 101 * time.Hour: "4d",
	} {
		if got := clock(d); got != want {
			t.Errorf("clock(%v) = %q, want %q", d, got, want)
		}
	}
}

// The rate follows what happens, is that of the whole at first, and goes to nothing on a link that
// is dead.
func TestMeter(t *testing.T) {
	t.Parallel()
	var m meter
	const tick = 200 * time.Millisecond
	at, bytes := time.Duration(0), int64(0)
	run := func(ticks int, each int64) {
		for range ticks {
			at, bytes = at+tick, bytes+each
			m.add(bytes, at)
		}
	}
	near := func(when string, want float64) {
		t.Helper()
		if m.rate < want*0.9 || m.rate > want*1.1 {
			t.Errorf("%s the rate is %.0f, want about %.0f", when, m.rate, want)
		}
	}
	run(1, 0)
	run(9, 200)
	near("after a slow first moment", 900)
	run(100, 200)
	near("in the steady state", 1000)
	run(100, 2000)
	near("ten times as fast, a while later,", 10000)
	run(30, 0)
	if m.rate != 0 {
		t.Errorf("after 6 s without a byte the rate is %.0f", m.rate)
	}
	m.finish(bytes, at)
	near("in the end", float64(bytes)/at.Seconds())

	// What an earlier copy had sent counts as there, and not as sent.
	m, at, bytes = meter{}, 0, 1<<40
	m.skip(bytes)
	run(10, 200)
	near("after going on from much", 1000)
	m.finish(bytes, at)
	near("in the end, after going on from much,", 1000)
	if m.bytes != 1<<40+2000 {
		t.Errorf("%d bytes are there", m.bytes)
	}
}

func TestPercentOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		bytes, size int64
		want        int
	}{{0, 0, 100}, {0, 10, 0}, {999, 1000, 99}, {1000, 1000, 100}, {1<<50 - 1, 1 << 50, 99}} {
		if got := percentOf(c.bytes, c.size); got != c.want {
			t.Errorf("percentOf(%d, %d) = %d, want %d", c.bytes, c.size, got, c.want)
		}
	}
}

// A server may answer a listing with any name; only those that were asked for become names of local
// files.
func TestCheckMatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, name string
		good          bool
	}{
		{"*.txt", "a.txt", true},
		{"dir/../*.txt", "a.txt", true},
		{"/srv//*/x?", "/srv/b/xy", true},
		{`a\*b`, "a*b", true},
		{"*", "..", false},
		{"*", ".", false},
		{"*", "dir/..", false},
		{"*.txt", "evil.sh", false},
		{"*.txt", "a.txt/../../.bashrc", false},
		{"*", "a\x00b", false},
		{"*", "caf\xe9", true},
		{"caf?", "caf\xe9", true},
		{"*", "/", false},
		{"*", "", false},
		{"[", "x", false},
	} {
		if err := checkMatch(c.pattern, c.name); (err == nil) != c.good {
			t.Errorf("checkMatch(%q, %q) = %v", c.pattern, c.name, err)
		}
	}
}

func TestHidden(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"*", "a", false},
		{"*", ".ssh", true},
		{".*", ".ssh", false},
		{`\.*`, ".ssh", false},
		{"*/x", ".d/x", true},
		{".d/*", ".d/x", false},
		{"../*", "../x", false},
		{"../*", "../.x", true},
	} {
		if got := hidden(c.pattern, c.name); got != c.want {
			t.Errorf("hidden(%q, %q) = %v", c.pattern, c.name, got)
		}
	}
}

func TestEscapeC1(t *testing.T) {
	t.Parallel()
	if got, want := string(escapeC1([]byte("{\"a\":\"é\u009bx\x7f\"}"))), `{"a":"é\u009bx\u007f"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// docs/usftp.1 is what the command prints.
func TestManPage(t *testing.T) {
	t.Parallel()
	committed, err := os.ReadFile("../../docs/usftp.1")
	if err != nil {
		t.Fatal(err)
	}
	var page bytes.Buffer
	writeMan(&page, (&app{console: newConsole(os.Stderr)}).command())
	if !bytes.Equal(page.Bytes(), committed) {
		t.Error("docs/usftp.1 is old: run `go run ./cmd/usftp man >docs/usftp.1`")
	}
}

func TestHashPassword(t *testing.T) {
	t.Parallel()
	cmd := command(t, t.TempDir(), "hash-password")
	cmd.Stdin = strings.NewReader("open sesame\n")
	got := finish(t, cmd)
	if got.code != 0 || got.stderr != "" {
		t.Fatalf("%+v", got)
	}
	users, err := sshd.ParsePasswords("users", []byte("u:"+got.stdout))
	if err != nil {
		t.Fatal(err)
	}
	if err := users.Check(t.Context(), "u", "open sesame"); err != nil {
		t.Error(err)
	}
	for _, stdin := range []string{"", "\n", strings.Repeat("x", 5000)} {
		cmd := command(t, t.TempDir(), "hash-password")
		cmd.Stdin = strings.NewReader(stdin)
		if got := finish(t, cmd); got.code == 0 || got.stdout != "" {
			t.Errorf("%.10q was taken: %+v", stdin, got)
		}
	}
}

// The command that goes on is what was typed, as a shell takes it.
func TestResumeCommand(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		`usftp cp --resume -r a 'b c' host:`: {"cp", "-r", "a", "b c", "host:"},
		`usftp cp --resume 'it'\''s' '$HOME' 'host:*.gz' .`: {"cp", "it's", "$HOME", "host:*.gz",
			"."},
		`usftp cp -r --resume a host:`:         {"cp", "-r", "--resume", "a", "host:"},
		`usftp cp --resume $'x\x1b[31m\'y' ''`: {"cp", "x\x1b[31m'y", ""},
	} {
		if got := resumeCommand(args); got != want {
			t.Errorf("%q makes %s, want %s", args, got, want)
		}
	}
}
