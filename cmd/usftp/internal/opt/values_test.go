package opt

import (
	"os/user"
	"path/filepath"
	"testing"
)

// systemd and mount(8) start programs without HOME.
func TestStatePathWithoutHome(t *testing.T) {
	for _, name := range []string{"HOME", "USERPROFILE", "XDG_STATE_HOME"} {
		t.Setenv(name, "")
	}
	u, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := StatePath("x"), filepath.Join(u.HomeDir, ".local", "state", "usftp",
		"x"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestRateFlag(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"8192": 1 << 20, "1": 128, "10MB": 10e6, "10MB/s": 10e6, "1.5MiB": 1536 << 10,
		"500kB":  500e3,
		"10Mbit": 10e6 / 8, "4MBit": 4e6 / 8, "10Mbit/s": 10e6 / 8, "2.5Gbit": 2.5e9 / 8,
		"800kbit": 100e3, "104857600": 100 << 30 / 8,
	} {
		if rate, err := parseRate(text); err != nil || rate != want {
			t.Errorf("%q is %d, %v, want %d", text, rate, err, want)
		}
	}
	for _, text := range []string{"", "0", "-5", "10M", "10m", "fast", "MB", "bit", "1e99GB",
		"NaNMbit", "104857601",
		"10MBit/h", "0.1kbit/s/s", "-1Mbit", "1.5"} {
		if _, err := parseRate(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}
