package sync

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// registerHabits adds the flags of rsync that ask for sync's defaults, or for what it has under
// another name. Help does not show them: users who type them by habit need not know.
func (c *flags) registerHabits(f *pflag.FlagSet) {
	f.Bool("help", false, "print help") // -h is human-readable
	var habits pflag.FlagSet
	for _, flag := range []struct{ name, letter string }{{"archive", "a"}, {"recursive", "r"},
		{"times", "t"}, {"perms", "p"}, {"partial", ""}, {"progress", ""}, {"stats", ""},
		{"no-owner", ""}, {"no-group", ""}, {"no-o", ""}, {"no-g", ""}, {"human-readable", "h"}} {
		habits.BoolP(flag.name, flag.letter, false, "")
	}
	habits.BoolVar(&c.NoTimes, "no-t", false, "")
	habits.BoolVar(&c.NoPerms, "no-p", false, "")
	habits.Func("bwlimit", "", func(text string) error {
		rate, err := rsyncRate(text)
		if err == nil {
			c.Limit = rate
		}
		return err
	})
	habits.FuncP("rsh", "e", "", func(text string) error {
		if strings.TrimSpace(text) == "ssh" {
			return nil // ssh_config is read without it, too
		}
		return f.Lookup("program").Value.Set(text)
	})
	habits.VisitAll(func(flag *pflag.Flag) {
		flag.Hidden = true
		f.AddFlag(flag)
	})
}

// rsyncUnits are the units of rsync's sizes, in lower case. Without one, rates are in KiB/s.
var rsyncUnits = map[string]float64{"": 1 << 10, "b": 1, "k": 1 << 10, "kib": 1 << 10, "kb": 1e3,
	"m": 1 << 20, "mib": 1 << 20, "mb": 1e6, "g": 1 << 30, "gib": 1 << 30, "gb": 1e9}

// rsyncRate parses a rate of rsync. Like rsync it refuses rates below 512 bytes per second, except
// 0, which means no limit.
func rsyncRate(text string) (bytes int64, err error) {
	lower := strings.ToLower(text)
	number := strings.TrimRight(lower, "bikmg")
	unit, known := rsyncUnits[lower[len(number):]]
	rate, err := strconv.ParseFloat(number, 64)
	rate *= unit
	if err != nil || !known || rate != 0 && !(rate >= 512 && rate < 1<<40) { // NaN is neither
		return 0, fmt.Errorf("invalid rate %q: use KiB/s, or a unit such as 500KB or 10MiB", text)
	}
	return int64(rate), nil
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

// A misreading is a letter that rsync has without a value. Here it takes one, as in ssh, and so
// takes the next text that rsync's users write: -cn would be no dry run, but a run with a cipher
// "n".
type misreading struct {
	flag, letter string
	here, rsync  string // descriptions of the letter
	plausible    func(value string) bool
}

var misreadings = []misreading{
	{"cipher", "c", "names ciphers", "--checksum", func(value string) bool {
		return strings.ContainsAny(value, "0123456789")
	}},
	{"option", "o", "sets an ssh_config option", "--owners", func(value string) bool {
		return strings.ContainsAny(value, "= \t")
	}},
	{"identity", "i", "names a private key", "--itemize-changes", isNoFlag},
	{"jump", "J", "names a jump host", "about the times of links", isNoFlag},
	{"program", "S", "names a program to connect with", "about holes in files", isNoFlag},
	{"server", "D", "names a server program", "about devices", isNoFlag},
}

func isNoFlag(value string) bool { return !strings.HasPrefix(value, "-") }

// misread returns an error if a letter of ssh was probably meant as rsync's: its value is
// implausible, or neither operand is a host.
func misread(f *pflag.FlagSet, hosts bool) error {
	for _, m := range misreadings {
		flag := f.Lookup(m.flag)
		if !flag.Changed {
			continue
		}
		values := []string{flag.Value.String()}
		if several, ok := flag.Value.(pflag.SliceValue); ok {
			values = several.GetSlice()
		}
		for _, value := range values {
			why := "neither SRC nor DST is a host"
			if hosts {
				if m.plausible(value) {
					continue
				}
				why = "it cannot be meant"
			}
			return fmt.Errorf("--%s %s: %s%s", m.flag, value, why, m.hint())
		}
	}
	return nil
}

func (m misreading) hint() string {
	return fmt.Sprintf(" (-%s %s, as with ssh; in rsync it is %s)", m.letter, m.here, m.rsync)
}

// missingOperand returns the error for a command line without SRC and DST, which a letter may have
// taken, or with more.
func missingOperand(f *pflag.FlagSet) error {
	text := "sync needs two directories: SRC and DST"
	if f.NArg() > 2 {
		text += "; `usftp cp -p` copies files"
	}
	for _, m := range misreadings {
		if f.Lookup(m.flag).Changed {
			text += m.hint()
		}
	}
	return errors.New(text)
}

// switches are the letters of sync's flags without a value.
const switches = "046ahnpqrtuvzBKW"
