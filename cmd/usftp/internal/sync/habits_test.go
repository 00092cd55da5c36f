package sync

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestHabits(t *testing.T) {
	for line, want := range map[string]string{
		"sync -P a b":                  "sync a b",
		"sync -avP a b":                "sync -av a b",
		"sync -avPn a b":               "sync -avn a b",
		"sync -rP --delete a b":        "sync -r --delete a b",
		"sync a b -P":                  "sync a b",
		"sync -P 22 a b":               "sync -P 22 a b",
		"sync -vP22 a b":               "sync -vP22 a b",
		"sync -P=22 a b":               "sync -P=22 a b",
		"sync -i Private a b":          "sync -i Private a b",
		"sync -iPrivate a b":           "sync -iPrivate a b",
		"sync --delete Photos b":       "sync --delete Photos b",
		"sync --exclude=P a b":         "sync --exclude=P a b",
		"sync -- -P b":                 "sync -- -P b",
		"cp -P a b":                    "cp -P a b",
		"sync -o ProxyCommand=x a b":   "sync -o ProxyCommand=x a b",
		"sync -oProxyCommand=x -P a b": "sync -oProxyCommand=x a b",
	} {
		if got := strings.Join(Habits(strings.Fields(line)), " "); got != want {
			t.Errorf("%q became %q, want %q", line, got, want)
		}
	}
}

// The letters before a -P that Habits knows are those of sync's flags without a value.
func TestSwitches(t *testing.T) {
	f := pflag.NewFlagSet("sync", pflag.ContinueOnError)
	new(flags).register(f)
	var found []string
	f.VisitAll(func(flag *pflag.Flag) {
		if flag.Shorthand != "" && flag.NoOptDefVal != "" {
			found = append(found, flag.Shorthand)
		}
	})
	slices.Sort(found)
	want := strings.Split(switches, "")
	slices.Sort(want)
	if !slices.Equal(found, want) {
		t.Errorf("they are %q, want %q", found, want)
	}
}

func TestRsyncRate(t *testing.T) {
	for text, want := range map[string]int64{"1000": 1024000, "1.5m": 3 << 19, "10MB": 10 << 20,
		"0": 0, "": -1, "x": -1, "-1": -1, "9999999g": -1,
		"nan": -1, "inf": -1} {
		got, err := rsyncRate(text)
		if err != nil {
			got = -1
		}
		if got != want {
			t.Errorf("%q is %d, want %d", text, got, want)
		}
	}
}
