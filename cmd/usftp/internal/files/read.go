package files

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/pflag"

	"github.com/usftp/usftp/cmd/usftp/internal/verb"
)

func concatenate() *spec {
	var o verb.ConcatenateOptions
	return &spec{
		reads: true, use: "cat [flags] HOST:PATH...", short: "print files",
		long: `Prints files on hosts, one after the other, as cat does. The beginnings of the next
files are fetched while one is printed. Contents go to standard output unchanged,
including control characters.

With --json, each line of text is an object; a line that is not UTF-8 is in "base64".`,
		examples: `  usftp cat host:/etc/os-release
  usftp cat 'host:logs/*.log' | grep error`,
		least: 1,
		register: func(f *pflag.FlagSet) {
			f.BoolVarP(&o.Number, "number", "n", false, "number all output lines")
		},
		run: with(verb.Concatenate, &o),
	}
}

// amounts are -n and -c of head and tail.
type amounts struct{ lines, bytes string }

func (n *amounts) register(f *pflag.FlagSet, o *verb.HeadOptions, lines, bytes string) {
	f.StringVarP(&n.lines, "lines", "n", "10", lines)
	f.StringVarP(&n.bytes, "bytes", "c", "", bytes)
	f.BoolVarP(&o.Quiet, "quiet", "q", false, "print no headings, banner or notes")
	f.BoolVar(&o.Verbose, "headings", false, "print a heading for a single file too")
}

// units are the multipliers of head and tail.
var units = map[string]int64{"": 1, "b": 512, "kB": 1e3, "k": 1 << 10, "K": 1 << 10, "KiB": 1 << 10,
	"MB": 1e6, "M": 1 << 20, "MiB": 1 << 20, "GB": 1e9, "G": 1 << 30, "GiB": 1 << 30}

const unitsLong = `Numbers may end in b (512), k, K or KiB (1024), kB (1000), and likewise M, MiB, MB, G,
GiB and GB.`

// set reads the amounts. other is the sign that inverts the meaning.
func (n *amounts) set(o *verb.HeadOptions, other, same string) error {
	flag, text := "-n", n.lines
	if n.bytes != "" {
		flag, text = "-c", n.bytes
		o.Bytes = true
	}
	number, found := strings.CutPrefix(text, other)
	o.Other = found
	number = strings.TrimPrefix(number, same)
	digits := strings.TrimRightFunc(number, unicode.IsLetter)
	scale, known := units[number[len(digits):]]
	count, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || !known || count < 0 || count > 1<<62/scale {
		return fmt.Errorf("%s %s: not a number", flag, text)
	}
	o.Count = count * scale
	return nil
}

func head() *spec {
	var o verb.HeadOptions
	var n amounts
	return &spec{
		reads: true, use: "head [flags] HOST:PATH...", short: "print the first lines of files",
		long: `Prints the first lines of files on hosts, as head does. Only what is printed is fetched,
in pieces of 32 KiB and more. "-5" is short for "-n 5".

` + unitsLong,
		examples: `  usftp head -n 3 'host:/etc/*.conf'
  usftp head -c 1M host:disk.img | file -`,
		least: 1,
		register: func(f *pflag.FlagSet) {
			n.register(f, &o, "print the first `n` lines (default 10); with -n -K, all but the last K", "print the first `n` bytes; with -c -K, all but the last K")
		},
		take: func(_ *pflag.FlagSet, args []string) ([]string, error) {
			return args, n.set(&o, "-", "+")
		},
		run: with(verb.Head, &o),
	}
}

func tail() *spec {
	var o verb.TailOptions
	var n amounts
	seconds := 1.0
	s := &spec{
		reads: true, use: "tail [flags] HOST:PATH...", short: "print the last lines of files",
		long: `Prints the last lines of files on hosts, as tail does. Files are read backwards from
their ends. "-5" is short for "-n 5".

` + unitsLong + `

SFTP cannot wait for a change: with -f usftp asks for the sizes of all files once a
second, in one round trip, until it is interrupted. -F also notices when a name
belongs to another file, as after a log rotation. SFTP has no inode numbers, so usftp
compares size, time and owner, and cannot tell two files apart if these are the same.`,
		examples: `  usftp tail -f host:/var/log/syslog
  usftp tail -n 100 'host:logs/*.log'`,
		least: 1,
		register: func(f *pflag.FlagSet) {
			n.register(f, &o.HeadOptions,
				"print the last `n` lines (default 10); with -n +K, those from line K on",
				"print the last `n` bytes; with -c +K, those from byte K on")
			f.BoolVarP(&o.Follow, "follow", "f", false,
				"keep running, and print what is appended to the files")
			f.BoolVarP(&o.Retry, "follow-name", "F", false,
				"like -f, and open a file again if it is rotated or missing for a while")
			f.Float64VarP(&seconds, "sleep-interval", "s", 1,
				"with -f, wait this many `seconds` between checks")
		},
		run: with(verb.Tail, &o),
	}
	s.take = func(_ *pflag.FlagSet, args []string) ([]string, error) {
		if !(seconds >= 0.01 && seconds < 1e6) {
			return nil, fmt.Errorf("-s must be at least 0.01 seconds")
		}
		o.Interval = time.Duration(seconds * float64(time.Second))
		if o.Follow || o.Retry { // the first host would be followed forever
			s.oneHost = " with -f; --hosts follows files on several"
		}
		return args, n.set(&o.HeadOptions, "+", "-")
	}
	return s
}

// Historical replaces the old form "-5" by "-n5" in a command line of head or tail, and makes an
// operand of a mode of chmod that looks like a flag: "+" changes nothing, so "+,-x" is "-x".
func Historical(args []string) []string {
	if len(args) == 0 || !hasHistory(args[0]) {
		return args
	}
	for _, make := range specs {
		if _, cmd := newCommand(nil, make); cmd.Name() == args[0] {
			return append(args[:1:1], historical(args[0], cmd.Flags(), args[1:])...)
		}
	}
	return args
}

func hasHistory(name string) bool { return name == "head" || name == "tail" || name == "chmod" }

// historical does this for the arguments of a command with these flags.
func historical(name string, f *pflag.FlagSet, args []string) []string {
	if !hasHistory(name) {
		return args
	}
	args = slices.Clone(args)
	for i := 0; i < len(args) && args[i] != "--"; i++ {
		letters, found := strings.CutPrefix(args[i], "-")
		switch {
		case !found || letters == "":
		case valueFollows(f, args[i]):
			i++
		case name == "chmod":
			if letters[0] != '-' && strings.Trim(letters, "rwxXstugoa,+-=") == "" {
				args[i] = "+,-" + letters
			}
		case strings.Trim(letters, "0123456789") == "":
			args[i] = "-n" + letters
		}
	}
	return args
}

// valueFollows reports whether the argument after a flag is its value.
func valueFollows(f *pflag.FlagSet, arg string) bool {
	if name, long := strings.CutPrefix(arg, "--"); long {
		flag := f.Lookup(name)
		return flag != nil && flag.NoOptDefVal == ""
	}
	for i := 1; i < len(arg); i++ {
		flag := f.ShorthandLookup(arg[i : i+1])
		if flag == nil || flag.NoOptDefVal == "" {
			return flag != nil && i == len(arg)-1
		}
	}
	return false
}
