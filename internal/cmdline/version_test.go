package cmdline

import (
	"runtime/debug"
	"testing"
)

func TestVersionOf(t *testing.T) {
	t.Parallel()
	commit := []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"},
		{Key: "vcs.modified", Value: "true"}}
	for _, test := range []struct {
		name, version string
		settings      []debug.BuildSetting
		want          string
	}{
		{"release of a module", "v1.2.3", nil, "v1.2.3"},
		{"release from a checkout", "v1.2.3", commit[:1], "v1.2.3 (0123456789ab)"},
		{"changed checkout", "v1.2.4-0.2026", commit, "v1.2.4-0.2026 (0123456789ab, changed)"},
		{"no version", "(devel)", commit[:1], "(no version, commit 0123456789ab)"},
		{"no version, changed", "", commit, "(no version, commit 0123456789ab, changed)"},
		{"nothing recorded", "(devel)", nil, "(no version, unknown commit)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			info := &debug.BuildInfo{Main: debug.Module{Version: test.version},
				Settings: test.settings}
			if got := versionOf(info); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
	if got := versionOf(nil); got != "(unknown version, unknown commit)" {
		t.Errorf("without build information: %s", got)
	}
}
