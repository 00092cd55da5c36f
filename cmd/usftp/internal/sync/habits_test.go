package sync

import (
	"os"
	"regexp"
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

// rsyncLetters are the letters of rsync 3.5's flags that have no value.
const rsyncLetters = "vqcarRbudlLkKHpEAXogDtUNOJSnWxymIzCFs0846hPi"

// With every letter of rsync's before it, the n of a dry run is that or an error: if the letter
// took it as its value, --delete would be carried out.
func TestDryRunWithEveryLetterOfRsync(t *testing.T) {
	for _, letter := range rsyncLetters {
		for _, hosts := range []bool{false, true} {
			if hosts && strings.ContainsRune("JSD", letter) {
				continue // there may be a host, or a program, that is called "n"
			}
			f, c := pflag.NewFlagSet("sync", pflag.ContinueOnError), new(flags)
			c.register(f)
			args := Habits([]string{"sync", "-" + string(letter) + "n", "--delete", "a", "b"})[1:]
			err := f.Parse(args)
			if err == nil {
				err = misread(f, hosts)
			}
			if err == nil {
				err = c.check(f.Changed)
			}
			if err == nil && !c.DryRun {
				t.Errorf("with %q, sync deletes (with hosts: %v)", args, hosts)
			}
			if err != nil && c.DryRun && letter != '0' { // -0 is about a list
				t.Errorf("%q: %v", args, err)
			}
		}
	}
}

// So it is in a session, where no letter of ssh means anything.
func TestDryRunInSession(t *testing.T) {
	for _, letter := range rsyncLetters {
		f, c := pflag.NewFlagSet("sync", pflag.ContinueOnError), new(flags)
		c.register(f)
		err := f.Parse([]string{"-" + string(letter) + "n", "--delete", "a", ":b"})
		if err == nil {
			err = inSession(f)
		}
		if err == nil {
			err = c.check(f.Changed)
		}
		if err == nil && !c.DryRun {
			t.Errorf("with -%cn, sync deletes", letter)
		}
	}
}

func TestDocumentedLettersOfRsync(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/coming-from-rsync.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, letter := range rsyncLetters + "efBMT" {
		if !regexp.MustCompile("(?m)^\\|[^|]*`-" + string(letter) + "\\b[^|]*\\|").Match(text) {
			t.Errorf("its table has no -%c", letter)
		}
	}
}

func TestConnectionFlagsThatAreMeant(t *testing.T) {
	f := pflag.NewFlagSet("sync", pflag.ContinueOnError)
	new(flags).register(f)
	if err := f.Parse(strings.Fields("-c aes128-ctr -oUser=x -o Port=22 -Jhop -Sssh -zn")); err != nil {
		t.Fatal(err)
	}
	if err := misread(f, true); err != nil {
		t.Error(err)
	}
}

// host::module is of rsync's daemon: it must not become a directory ":module". It is scp's way to
// write such a name, so cp takes it.
func TestRsyncDaemon(t *testing.T) {
	for args, want := range map[string]bool{"hh::mod b": false, "a u@h::mod/x": false,
		"[::1]::mod b": false, "a hh:./:mod": true, "a [::1]:mod": true, "a hh:a::b": true,
		"./a::b hh:": true} {
		if _, _, err := parsePlaces(strings.Fields(args)); (err == nil) != want {
			t.Errorf("sync %s: %v", args, err)
		}
	}
}

// Of several sources, the answer is not how to write two.
func TestSeveralSources(t *testing.T) {
	f := pflag.NewFlagSet("sync", pflag.ContinueOnError)
	new(flags).register(f)
	if err := f.Parse([]string{"-a", "x", "y", "h:"}); err != nil {
		t.Fatal(err)
	}
	if err := missingOperand(f); !strings.Contains(err.Error(), "`usftp cp -p` copies files") {
		t.Error(err)
	}
}

// The program of -e makes the connection. ssh alone is what sync does without it.
func TestRemoteShell(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"-avze|ssh|a|h:b", ""}, {"-e|ssh -p 22|a|h:b", "ssh -p 22"},
		{"--rsh=rsh|a|h:b", "rsh"}, {"-P|-e|ssh -i key|a|h:b", "ssh -i key"},
	} {
		f := pflag.NewFlagSet("sync", pflag.ContinueOnError)
		new(flags).register(f)
		err := f.Parse(Habits(append([]string{"sync"}, strings.Split(test.args, "|")...))[1:])
		if got := f.Lookup("program").Value.String(); err != nil || got != test.want ||
			misread(f, true) != nil || f.NArg() != 2 {
			t.Errorf("%s: %q and %q, %v", test.args, got, f.Args(), err)
		}
	}
}

func TestRsyncRate(t *testing.T) {
	for text, want := range map[string]int64{"1000": 1024000, "1.5m": 3 << 19, "10MB": 10e6,
		"10MiB": 10 << 20, "10KiB": 10 << 10, "10kb": 10e3, "2Gb": 2e9, "2gib": 2 << 30,
		"500K": 500 << 10, "600B": 600, "0": 0, "0B": 0, "1.5": 1536,
		"500B": -1, "0.1": -1, "10iB": -1, "10KBB": -1, "10bk": -1, "": -1, "x": -1, "KB": -1, "-1": -1,
		"9999999g": -1, "nan": -1, "inf": -1} {
		got, err := rsyncRate(text)
		if err != nil {
			got = -1
		}
		if got != want {
			t.Errorf("%q is %d, want %d", text, got, want)
		}
	}
}
