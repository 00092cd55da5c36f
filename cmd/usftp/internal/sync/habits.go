package sync

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// registerHabits adds the flags of rsync that ask for what sync does anyway. Help does not show
// them: whoever has them in the fingers need not know.
func (c *flags) registerHabits(f *pflag.FlagSet) {
	for _, flag := range []struct{ name, letter string }{{"archive", "a"}, {"recursive", "r"},
		{"times", "t"}, {"perms", "p"}, {"partial", ""}, {"progress", ""}, {"stats", ""}} {
		f.BoolP(flag.name, flag.letter, false, "")
		f.Lookup(flag.name).Hidden = true
	}
	for _, name := range []string{"no-owner", "no-group", "no-o", "no-g"} {
		f.Bool(name, false, "")
		f.Lookup(name).Hidden = true
	}
	f.BoolVar(&c.noTimes, "no-t", false, "")
	f.Lookup("no-t").Hidden = true
	f.BoolVar(&c.noPerms, "no-p", false, "")
	f.Lookup("no-p").Hidden = true
	f.BoolP("human-readable", "h", false, "")
	f.Lookup("human-readable").Hidden = true
	f.Bool("help", false, "print help")
	f.Func("bwlimit", "", func(text string) error {
		rate, err := rsyncRate(text)
		if err == nil {
			c.Limit = rate
		}
		return err
	})
	f.Lookup("bwlimit").Hidden = true
}

// rsyncRate parses a rate of rsync's, which is in KiB/s unless it has a unit.
func rsyncRate(text string) (bytes int64, err error) {
	unit := int64(1024)
	number := strings.TrimSuffix(strings.ToLower(text), "b")
	if i := len(number) - 1; i >= 0 {
		if power := strings.IndexByte("kmg", number[i]); power >= 0 {
			unit, number = 1024<<(10*power), number[:i]
		}
	}
	rate, err := strconv.ParseFloat(number, 64)
	if err != nil || !(rate >= 0 && rate*float64(unit) < 1<<40) { // NaN is neither
		return 0, fmt.Errorf("invalid rate %q: use KiB/s, or a number with K, M or G", text)
	}
	return int64(rate * float64(unit)), nil
}

// Habits drops -P from a command line of sync if no port follows it: in rsync it means --partial
// and --progress.
func Habits(args []string) []string {
	if len(args) == 0 || args[0] != "sync" {
		return args
	}
	args = slices.Clone(args)
	for i := 1; i < len(args) && args[i] != "--"; i++ {
		letters, after, found := strings.Cut(args[i], "P")
		if !found || strings.Trim(letters, "-"+switches) != "" || !strings.HasPrefix(letters, "-") ||
			strings.HasPrefix(letters, "--") {
			continue
		}
		port := strings.TrimPrefix(after, "=")
		if port == "" && i+1 < len(args) {
			port = args[i+1]
		}
		if _, err := strconv.Atoi(port); err == nil {
			continue
		}
		if args[i] = letters + after; args[i] == "-" {
			args = slices.Delete(args, i, i+1)
			i--
		}
	}
	return args
}

// switches are the letters of sync's flags that have no value.
const switches = "046ahnpqrtuvzBKW"
