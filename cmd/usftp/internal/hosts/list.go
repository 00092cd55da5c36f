// Package hosts runs a verb on several hosts at once: it reads the list of hosts, limits how many
// run at a time, shows each host's output, and derives the exit code.
package hosts

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/usftp/usftp/cmd/usftp/internal/connect"
	"github.com/usftp/usftp/dial"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/ui"
)

// Flags select the hosts on which a verb runs.
type Flags struct {
	list        []string
	file        string
	parallel    int
	retryFailed bool
}

// Register adds the flags to a verb's.
func (f *Flags) Register(fs *pflag.FlagSet) {
	fs.StringSliceVar(&f.list, "hosts", nil,
		"run on each host in the comma-separated `list`; operands that begin with a colon (:dir) are paths on each; may be repeated")
	fs.StringVar(&f.file, "hosts-file", "",
		"like --hosts, with the hosts in `file`, one per line; # begins a comment")
	fs.IntVar(&f.parallel, "parallel", 32, "with --hosts: work on at most `n` hosts at once")
	fs.BoolVar(&f.retryFailed, "retry-failed", false,
		"with --hosts: run only on the hosts on which this command failed last time")
}

// Given reports whether the verb runs on several hosts.
func (f *Flags) Given() bool { return len(f.list) > 0 || f.file != "" }

// ReadsInput reports whether the list of hosts comes from standard input.
func (f *Flags) ReadsInput() bool { return f.file == "-" }

// needHosts are the flags that make sense only with several hosts.
var needHosts = []string{"parallel", "retry-failed"}

// Check checks the flags; set reports whether one was given.
func (f *Flags) Check(set func(name string) bool) error {
	i := slices.IndexFunc(needHosts, set)
	switch {
	case !f.Given() && (set("hosts") || set("hosts-file")):
		return errors.New("--hosts and --hosts-file need at least one host")
	case !f.Given() && i >= 0:
		return fmt.Errorf("--%s needs --hosts or --hosts-file", needHosts[i])
	case f.parallel < 1:
		return errors.New("--parallel must be at least 1")
	}
	return nil
}

// A Host is one host of the list.
type Host struct {
	Label  string // as in the list
	Target dial.Target
}

// operand returns an operand for this host: a leading colon makes it a path on the host.
func (h Host) operand(arg string) string {
	path, ok := eachPath(arg)
	switch {
	case !ok:
		return arg
	case h.Target.Port != 0:
		t := h.Target
		if t.Path = path; path == "" {
			t.Path = "."
		}
		return t.String()
	}
	return h.Target.UserHost() + ":" + path
}

// eachPath returns the path that an operand names on each host; ok is false for other operands.
func eachPath(arg string) (path string, ok bool) { return strings.CutPrefix(arg, ":") }

// Operands returns a verb's operands for this host.
func (h Host) Operands(args []string) []string {
	operands := make([]string, len(args))
	for i, arg := range args {
		operands[i] = h.operand(arg)
	}
	return operands
}

// Direction refuses operands of a copy that are ambiguous with several hosts. The target is a path
// on each host or (download) a local directory that gets a subdirectory for each host. Sources
// copied to each host may be on this machine or on another host.
func Direction(operands []string) (download bool, err error) {
	each, last := 0, len(operands)-1
	for i, arg := range operands {
		if _, ok := eachPath(arg); ok {
			each++
		} else if i == last {
			if err := checkLocal(arg); err != nil {
				return false, err
			}
		}
	}
	_, up := eachPath(operands[last])
	switch {
	case each == 0:
		return false, errors.New(
			"--hosts needs a path on each host, which begins with a colon: FILE :dir, or :file DIR")
	case up && each != 1 && each != last+1, !up && each != last:
		return false, errors.New(
			"with --hosts, either all sources are paths on each host (:file) or none is")
	}
	return !up, nil
}

// Common returns the sources of a copy that are not on each host: on this machine, or on a host of
// their own. through means that such hosts are intended; see [connect.ParsePlaces].
func Common(operands []string, through bool) ([]connect.Place, error) {
	example := Host{Target: dial.Target{Host: "host"}}
	sources, _, err := connect.ParsePlaces(example.Operands(operands), through)
	if err != nil {
		return nil, err
	}
	var common []connect.Place
	for i, p := range sources {
		if _, each := eachPath(operands[i]); !each {
			common = append(common, p)
		}
	}
	return common, nil
}

// CheckOperands refuses operands that name hosts, and requires a path on each host.
func CheckOperands(operands []string) error {
	each := false
	for _, arg := range operands {
		if _, ok := eachPath(arg); ok {
			each = true
		} else if err := checkLocal(arg); err != nil {
			return err
		}
	}
	if !each && len(operands) > 0 {
		return errors.New("--hosts needs a path on each host, which begins with a colon, such as :dir")
	}
	return nil
}

// checkLocal refuses an operand that names a host.
func checkLocal(arg string) error {
	_, remote, err := dial.ParseTarget(arg)
	if err == nil && remote {
		return fmt.Errorf("%s names one host: with --hosts, write :path for a path on each host, or ./%s for a local file",
			arg, arg)
	}
	return err
}

// load reads the list of hosts. A host listed twice counts once.
func (f *Flags) load(stdin io.Reader) ([]Host, error) {
	names := f.list
	if f.file != "" {
		found, err := readFile(f.file, stdin)
		if err != nil {
			return nil, err
		}
		names = slices.Concat(names, found)
	}
	var hosts []Host
	labels := make(map[string]bool)
	for _, name := range names {
		h, err := parse(strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		if !labels[h.Label] {
			labels[h.Label] = true
			hosts = append(hosts, h)
		}
	}
	if len(hosts) == 0 {
		return nil, fmt.Errorf("--hosts-file %s: no hosts in the file", f.file)
	}
	return hosts, nil
}

func readFile(name string, stdin io.Reader) (names []string, err error) {
	in := stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("--hosts-file %s: %s", name, ui.ReasonOf(err))
		}
		defer f.Close()
		in = f
	}
	lines := bufio.NewScanner(in)
	for n := 1; lines.Scan(); n++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		words := strings.Fields(line)
		if len(words) > 1 {
			return nil, fmt.Errorf("--hosts-file %s: line %d: more than one host on a line", name, n)
		}
		names = append(names, words...)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("--hosts-file %s: %s", name, ui.ReasonOf(err))
	}
	return names, nil
}

// parse reads "host", "user@host", "host:port" or "sftp://user@host:port". The label must be usable
// as a directory name, for downloads from the host, though not on every system.
func parse(s string) (Host, error) {
	t, err := dial.ParseHost(s)
	switch port, portErr := strconv.ParseUint(t.Path, 10, 16); {
	case err != nil:
		return Host{}, err
	case t.Path == "" || t.Path == "/":
	case portErr == nil && port > 0 && t.Port == 0:
		t.Port = int(port)
	default:
		return Host{}, fmt.Errorf("%q: a host in the list must not have a path", s)
	}
	t.Path = ""
	label := s
	if _, rest, ok := strings.Cut(s, "://"); ok {
		label = strings.TrimSuffix(rest, "/")
	}
	if err := localfs.CheckForeignName(label); err != nil {
		return Host{}, fmt.Errorf("%q: %w", s, err)
	}
	return Host{label, t}, nil
}
