package shell

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// Lines are split as sh splits them, and patterns match what they match in sh.
func TestSplitLikeSh(t *testing.T) {
	t.Parallel()
	sh := opensshd.Find(t, "sh")
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "ab", "a b", "a*b", "a?b", "[ab]", "a]b", `a\b`, `\`,
		`\b`, "a#b", "#a", "-a", "a-c", "!", "a'b", `a"b`, ".hidden", "a!b", "^", "a^"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range []string{
		`a b`, `  a	b  `, `'a b'`, `"a b"`, `a\ b`, `a'  'b`, `"a"'b'c`, `''`, `"" a`, `a ''`,
		`'\'`, `'a\b'`,
		`"a\b"`, `"a\\b"`, `"a\"b"`, `"a\'b"`, `'a"b'`, `"a'b"`, `\'a`, `\"`, `\\`, `\\\\`, `a\\b`,
		`"\\"`, `"\$x"`,
		`"\` + "`" + `"`, `a#b`, `a #b c`, `#a`, `\#a`, `'#a' b`, `"#"`, `a\` + "\t" + `b`, `é日本`,
		`'é 日'`,
		`a*`, `'a*'`, `a\*`, `"a*"`, `a'*'`, `a"*"*`, `a\*b`, `"a*b"`, `?`, `\?`, `a?b`, `'a?b'`,
		`[ab]`, `'[ab]'`,
		`\[ab]`, `[ab\]`, `[a"b]"`, `"["ab]`, `[a`, `[`, `[]`, `[!a]`, `[\!a]`, `[a-c]`, `[a\-c]`,
		`a[\]]b`, `a["]"]b`,
		`*`, `.*`, `\.*`, `a\\*`, `"\\"*`, `'\'*`, `*\\*`, `x*`, `'x'*y`, `a\]b`, `\!`, `a!b`, `!`,
		`a[!x]b`,
		`\\[!a]`, `"\\"[!a]`, `\\\[!a]`, `[a[!b]`, `a[\^]`, `*'*'*`, `*"?"*`, `'a'\''b'`, `"a"\"b`, `-a`,
		`a\-c`,
	} {
		t.Run(line, func(t *testing.T) {
			cmd := exec.Command(sh, "-c", `printf '%s\0' `+line)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("sh: %v", err)
			}
			want := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
			words, err := split(line, shQuoting)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, w := range words {
				names := match(t, dir, w)
				slices.Sort(names)
				got = append(got, names...)
			}
			want = slices.DeleteFunc(want, func(name string) bool {
				return name == "." || name == ".."
			})
			slices.Sort(want)
			slices.Sort(got)
			if len(words) == 0 {
				got = []string{""} // printf without operands prints one empty line
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s is %q, and %q in sh", line, got, want)
			}
		})
	}
}

// match returns the names in a directory that a word stands for in sh: the word itself if nothing
// matches.
func match(t *testing.T, dir string, w word) (names []string) {
	t.Helper()
	if !w.isPattern() {
		if w.name() != w.text {
			t.Errorf("the name of %q is %q", w.text, w.name())
		}
		return []string{w.text}
	}
	found, err := filepath.Glob(filepath.Join(strings.ReplaceAll(dir, `\`, `\\`), w.pattern))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range found {
		if name = filepath.Base(name); !localfs.Hidden(w.pattern, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return []string{w.text}
	}
	return names
}

// Batches are split as OpenSSH's makeargv splits them. The patterns are what its glob gets.
func TestSplitLikeSFTP(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][][2]string{ // as a literal word, and as a pattern
		`get a b`:          {{"get", "get"}, {"a", "a"}, {"b", "b"}},
		`a#b c`:            {{"a", "a"}},
		`'a#b'`:            {{"a#b", "a#b"}},
		`'it\'s'`:          {{"it's", "it's"}},
		`"a\"b"`:           {{`a"b`, `a"b`}},
		`'a\\b'`:           {{`a\b`, `a\\b`}},
		`'a\b'`:            {{`a\b`, `a\b`}},
		`"a\ b"`:           {{`a\ b`, `a\ b`}},
		`a\ b`:             {{"a b", "a b"}},
		`a\*b`:             {{"a*b", `a\*b`}},
		`'a*b'`:            {{"a*b", `a\*b`}},
		`"a\*b"`:           {{`a\*b`, `a\\\*b`}},
		`a*`:               {{"a*", "a*"}},
		"a\r":              {{"a", "a"}},
		`"a 'b' c"`:        {{"a 'b' c", "a 'b' c"}},
		`a"b c"d`:          {{"ab cd", "ab cd"}},
		`'g-qs\\"'`:        {{`g-qs\"`, `g-qs\\"`}},
		`"[metachar].txt"`: {{"[metachar].txt", `\[metachar].txt`}},
	} {
		words, err := split(line, sftpQuoting)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		var got [][2]string
		for _, w := range words {
			got = append(got, [2]string{w.text, strings.NewReplacer(`\]`, `]`, `\-`,
				`-`).Replace(w.pattern)})
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s is %q, want %q", line, got, want)
		}
	}
}

func TestSplitUnfinished(t *testing.T) {
	t.Parallel()
	for _, q := range []quoting{shQuoting, sftpQuoting} {
		for line, want := range map[string]error{
			`a 'b`: errQuote, `a "b`: errQuote, `a \`: errBackslash, `'a' "b' c`: errQuote,
			`"a\"`: errQuote,
		} {
			if _, err := split(line, q); err != want {
				t.Errorf("%s: %v, want %v", line, err, want)
			}
		}
	}
}

func TestParseLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		command        string
		ignore, silent bool
		args           []string
		rest           string
	}{
		"":             {},
		"   # comment": {},
		"@":            {silent: true},
		"-@ pwd":       {command: "pwd", ignore: true, silent: true, args: nil},
		"@-get 'a b' c": {command: "get", ignore: true, silent: true,
			args: []string{"a b", "c"}, rest: "'a b' c"},
		"  GET a":            {command: "get", args: []string{"a"}, rest: "a"},
		"!echo 'it":          {command: "!", rest: "echo 'it"},
		"! ls":               {command: "!", rest: "ls"},
		"lls -l \"$HOME\" #": {command: "lls", rest: "-l \"$HOME\" #"},
		"?":                  {command: "help"},
		"chdir x":            {command: "cd", args: []string{"x"}, rest: "x"},
	} {
		l, err := parseLine(text, shQuoting)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		name := ""
		if l.command != nil {
			name = l.command.names[0]
		}
		if name != want.command || l.ignoreErrors != want.ignore || l.silent != want.silent ||
			!slices.Equal(textsOf(l.args), want.args) || strings.TrimSpace(l.rest) != want.rest {
			t.Errorf("%q is %s %+v", text, name, l)
		}
	}
	for _, text := range []string{"jajajajaja", "get 'a", "''"} {
		if _, err := parseLine(text, sftpQuoting); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

// Whatever is typed, the words are positions within the line, and a quoted name is split back into
// itself.
func FuzzSplit(f *testing.F) {
	for _, seed := range []string{`get 'a b' "c\"d" e\ f #x`, `[!a]*?\[`, `'it\'s' "\\"`,
		"\xff\x00 '", `a\`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, q := range []quoting{shQuoting, sftpQuoting} {
			words, _ := scan(text, q)
			at := 0
			for _, w := range words {
				if w.start < at || w.end <= w.start || w.end > len(text) {
					t.Fatalf("%q: a word from %d to %d", text, w.start, w.end)
				}
				at = w.end
				if q == shQuoting && !w.isPattern() && w.name() != w.text {
					t.Fatalf("%q: the name of %q is %q", text, w.text, w.name())
				}
			}
			parseLine(text, q)
		}
		if strings.ContainsAny(text, "\n\r\x00") || text == "" {
			return
		}
		for _, open := range []byte{0, '\'', '"'} {
			line := quote(text, open)
			if open != 0 {
				line = string(open) + line + string(open)
			}
			words, err := split(line, shQuoting)
			if err != nil || len(words) != 1 || words[0].text != text || words[0].isPattern() {
				t.Fatalf("%q is quoted as %s, which is %q, %v", text, line, textsOf(words), err)
			}
		}
	})
}

// TestOperators: sh's operators are not taken for names, but where sftp does so in its batches.
func TestOperators(t *testing.T) {
	for line, refusedIn := range map[string]struct{ shell, batch bool }{
		"rm -r build; ls docs": {true, true},
		"rm build; ls docs":    {true, true},
		"RM build; ls":         {true, true},
		"rm build;":            {true, false}, // as in sftp
		"ls | less":            {true, false},
		"ls >list":             {true, false},
		"get a b && bye":       {true, true},
		"get R&D.txt":          {true, false},
		`get "R&D.txt" 'a;b'`:  {false, false},
		`rm a\;b`:              {false, false},
		"ls -l a b c":          {false, false},
	} {
		for q, want := range map[quoting]bool{shQuoting: refusedIn.shell,
			sftpQuoting: refusedIn.batch} {
			_, err := parseLine(line, q)
			if (err != nil) != want || err != nil && !strings.Contains(err.Error(), "has no meaning here") {
				t.Errorf("%s, by quoting %d: %v", line, q, err)
			}
		}
	}
}
