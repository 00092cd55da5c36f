package daemon

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestStatusNeedsAToken: the status page is not on an address that others can reach without one,
// wherever the address comes from.
func TestStatusNeedsAToken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "usftpd.toml")
	for _, c := range []struct{ metrics, flag, says string }{
		{"", "", ":1: admin: the page needs an address: set metrics, or use --metrics"},
		{"0.0.0.0:0", "", ":2: admin: the page would be on 0.0.0.0:0, which others can " +
			"reach: set token"},
		{"127.0.0.1:0", "--metrics=[::]:0", "would be on [::]:0"},
		{"127.0.0.1:0", "--metrics=example.com:0", "would be on example.com:0"},
	} {
		text := "[admin]\n[store]\nfile = 'store.db'\n"
		if c.metrics != "" {
			text = "metrics = '" + c.metrics + "'\n" + text
		}
		writeFile(t, file, []byte(text))
		args := []string{"check", "--config", file}
		if c.flag != "" {
			args = append(args, c.flag)
		}
		if o := run(t, dir, "", args...); o.code != 1 || !strings.Contains(o.stderr, c.says) {
			t.Errorf("%+v: exit code %d, %q", c, o.code, o.stderr)
		}
	}
	writeFile(t, file, []byte("[admin]\n[store]\nfile = 'store.db'\n"))
	for _, address := range []string{"localhost:0", ":0", "[::1]:0"} {
		if o := run(t, dir, "", "check", "--config", file, "--metrics="+address); o.code != 0 {
			t.Errorf("%s: %+v", address, o)
		}
	}
}
