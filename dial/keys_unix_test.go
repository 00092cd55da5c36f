//go:build unix

package dial

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
)

// TestKeyThatIsNamedInVain: the warning says why a key is not offered.
func TestKeyThatIsNamedInVain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	long := filepath.Join(dir, strings.Repeat("x", 300)) // which even root cannot have
	for name, want := range map[string]string{
		filepath.Join(dir, "none"): "none does not exist and is not offered\"",
		long:                       "x is not offered: ",
	} {
		var log strings.Builder
		d := newTestServer(t).dialer(t, &Config{Identities: []string{name},
			Logger: slog.New(slog.NewTextHandler(&log, nil))})
		log.Reset()
		d.warnOfMissing()
		if !strings.Contains(log.String(), want) {
			t.Errorf("%q does not have %q", log.String(), want)
		}
	}
}
