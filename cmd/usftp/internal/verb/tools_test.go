package verb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// sortedLines sorts output whose order the tools leave open.
func sortedLines(text string) string {
	lines := strings.SplitAfter(text, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// TestFindIsFind compares output and exit codes with GNU's find.
func TestFindIsFind(t *testing.T) {
	since := time.Now().AddDate(0, 0, -150) // trees are of the last 400 days
	for seed := range uint64(4) {
		dir := t.TempDir()
		randomTree(t, seed, dir+"/tree", 3)
		ok(t, os.MkdirAll(dir+"/tree/none", 0o755))
		ok(t, os.Chtimes(dir+"/tree/none", time.Now(), time.Now().Add(-50*time.Hour)))
		r := newRig(startServer(t, dir))
		for _, expression := range []string{
			"", "-type f", "-type d,l", "-name a*", "-iname A*", "-name .*", "-not -name *.tar",
			"! -type d -a -name [!a-c]*",
			"-name ?", "-path *a*b*", "-path tree/*", "-ipath TREE/A*", "-size +1k", "-size -2",
			"-size 0", "-size 1k", "-size +100c", "-size -1M",
			"-mtime +30", "-mtime -100", "-mtime 2", "-mtime 0", "-mmin -3100", "-mmin +3000",
			"-mmin 3000", "-empty", "-type d -empty",
			"-perm 644", "-perm -100", "-perm /222", "-perm -u+x", "-perm u=rw,g=r", "-maxdepth 1",
			"-maxdepth 0", "-mindepth 2", "-mindepth 1 -maxdepth 2 -type f",
			"-depth", "-depth -mindepth 1", "-name a -prune -o -print",
			"-type d -name .d -prune -o -type f -print", "( -name a -o -name b ) -type d",
			"-name a -o -name b -print", "-uid 0", "-uid +0", "-user root", "-user nobody",
			"-group root", "-false -o -true", "-newer tree/none", "-type f ! -newer tree/none",
			"-newermt " + since.Format(time.DateOnly), "-newermt " + since.Format(time.RFC3339),
			"! -newermt @" + strconv.FormatInt(since.Unix(), 10),
			"-maxdepth 1 -print0", "-name ä", "-name [[:upper:]]", "-name %s -print -print",
		} {
			words := strings.Fields(expression)
			want, code := tool(t, dir, "find", append([]string{"tree", "tree/a", "missing"},
				words...)...)
			e, err := ParseExpression(words)
			ok(t, err)
			err = Find(t.Context(), r.Env, e, []string{"tree", "tree/a", "missing"})
			got, _ := r.take()
			if strings.Contains(expression, "print0") {
				got, want = strings.ReplaceAll(got, "\x00", "\n"), strings.ReplaceAll(want, "\x00",
					"\n")
			}
			if sortedLines(got) != sortedLines(want) || codeOf(err) != code {
				t.Errorf("seed %d: find %s: code %v, want %d\n%s\nwant\n%s", seed, expression, err,
					code, got, want)
			}
		}
	}
}

// TestFindOrder: a directory comes before what is in it, and with -depth after it; names in order.
func TestFindOrder(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"t/b/x", "t/a/y", "t/a-b", "t/c"} {
		writeFile(t, dir+"/"+name, "")
	}
	r := newRig(startServer(t, dir))
	for expression, want := range map[string]string{
		"-true":  "t t/a t/a/y t/a-b t/b t/b/x t/c",
		"-depth": "t/a/y t/a t/a-b t/b/x t/b t/c t",
		"-quit":  "", "-name b -print -quit": "t/b", "-quit -print": "",
		"! -name a-b -o -quit": "t t/a t/a/y",
	} {
		e, err := ParseExpression(strings.Fields(expression))
		ok(t, err)
		ok(t, Find(t.Context(), r.Env, e, []string{"t"}))
		if out, _ := r.take(); strings.Join(strings.Fields(out), " ") != want {
			t.Errorf("find t %s: %q, want %q", expression, out, want)
		}
	}
}

// TestFindPrintf compares what -printf prints with GNU's find.
func TestFindPrintf(t *testing.T) {
	dir := t.TempDir()
	randomTree(t, 3, dir+"/tree", 3)
	ok(t, os.Symlink("some where", dir+"/tree/zlink"))
	list, _ := tool(t, dir, "find", "tree", "!", "-type", "l")
	whole := time.Unix(1_700_000_001, 0)
	for _, name := range strings.Split(strings.TrimSpace(list), "\n") {
		ok(t, os.Chtimes(dir+"/"+name, whole, whole.Add(-time.Hour)))
	}
	r := newRig(startServer(t, dir))
	for _, format := range []string{"%p\\n", "[%f] [%h] [%P] [%H] [%d] [%y] [%%]\\n",
		"%-12f|%10s|%5m|%M|%u|%g|%U|%G\\n", "%p -> %l\\t\\060\\n"} {
		want, _ := tool(t, dir, "find", "tree", "-printf", format)
		e, err := ParseExpression([]string{"-printf", format})
		ok(t, err)
		ok(t, Find(t.Context(), r.Env, e, []string{"tree"}))
		if got, _ := r.take(); sortedLines(got) != sortedLines(want) {
			t.Errorf("-printf %q\n%s\nwant\n%s", format, got, want)
		}
	}
	for _, operand := range []string{"tree", "./tree/", "tree//", ".", "/", dir + "/tree/"} {
		words := []string{"-maxdepth", "0", "-printf", "%h\\n"}
		want, _ := tool(t, dir, "find", append([]string{operand}, words...)...)
		e, err := ParseExpression(words)
		ok(t, err)
		ok(t, Find(t.Context(), r.Env, e, []string{operand}))
		if got, _ := r.take(); got != want {
			t.Errorf("%%h of %s: %q, want %q", operand, got, want)
		}
	}
	formats := []string{"%t %a"}
	for letter := range timeFormats {
		formats = append(formats, "%T"+string(letter), "%A"+string(letter))
	}
	for _, format := range formats {
		// listing changes the access times of directories
		words := []string{"-type", "f", "-printf", format + "\\n"}
		want, _ := tool(t, dir, "find", append([]string{"tree"}, words...)...)
		e, err := ParseExpression(words)
		ok(t, err)
		ok(t, Find(t.Context(), r.Env, e, []string{"tree"}))
		if got, _ := r.take(); got != want {
			t.Errorf("-printf %q: %.60q, want %.60q", format, got, want)
		}
	}
}

// TestFindList: -ls prints what ls -l does, with the path.
func TestFindList(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir+"/t/file", "12345")
	ok(t, os.Chmod(dir+"/t/file", 0o640))
	ok(t, os.Symlink("file", dir+"/t/link"))
	r := newRig(startServer(t, dir))
	e, err := ParseExpression([]string{"-name", "[fl]*", "-ls", "-printf", "%f\\n"})
	ok(t, err)
	ok(t, Find(t.Context(), r.Env, e, []string{"t"}))
	out, _ := r.take()
	want := regexp.MustCompile(`^-rw-r----- \? \S+ +\S+ +5 \w{3} .\d .\d:\d\d t/file\nfile\n` +
		`lrwxrwxrwx \? \S+ +\S+ +4 \w{3} .\d .\d:\d\d t/link -> file\nlink\n$`)
	if !want.MatchString(out) {
		t.Errorf("%q", out)
	}
}

// TestFindExec: programs get the names that the host has as arguments, and nothing else.
func TestFindExec(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b $(id); *", "c\nd"} {
		writeFile(t, dir+"/t/"+name, "")
	}
	r := newRig(startServer(t, dir))
	var ran [][]string
	r.Operand = func(name string) string { return "h:" + name }
	r.Run = func(_ context.Context, argv []string) error {
		ran = append(ran, argv)
		if argv[0] == "false" {
			return exec.Command("false").Run()
		}
		return nil
	}
	for _, test := range []struct {
		words, out string
		code       int
		ran        [][]string
	}{
		{`-type f -exec true x{}y {} ; -printf %f\n`, "a\nb $(id); *\nc\nd\n", 0,
			[][]string{{"true", "xh:t/ay", "h:t/a"},
				{"true", "xh:t/b $(id); *y", "h:t/b $(id); *"},
				{"true", "xh:t/c\ndy", "h:t/c\nd"}}},
		{`-name a -exec false ; -print`, "", 0, [][]string{{"false"}}},
		{`-name a -exec false {} + -print`, "t/a\n", 1, [][]string{{"false", "h:t/a"}}},
		{`-name a -exec true -x {} + -o -name b* -exec true {} +`, "", 0,
			[][]string{{"true", "-x", "h:t/a"}, {"true", "h:t/b $(id); *"}}},
		{`-exec true {} + -name a -quit`, "", 0, [][]string{{"true", "h:t", "h:t/a"}}},
	} {
		ran = nil
		e, err := ParseExpression(strings.Fields(test.words))
		ok(t, err)
		err = Find(t.Context(), r.Env, e, []string{"t"})
		out, said := r.take()
		if out != test.out || codeOf(err) != test.code ||
			!slices.EqualFunc(ran, test.ran, slices.Equal) {
			t.Errorf("find t %s: %q, code %v, ran %q, said %q", test.words, out, err, ran, said)
		}
	}
	for i := range 12_000 {
		writeFile(t, fmt.Sprintf("%s/many/%05d", dir, i), "")
	}
	ran = nil
	e, err := ParseExpression(strings.Fields("-type f -exec true {} +"))
	ok(t, err)
	ok(t, Find(t.Context(), r.Env, e, []string{"many"}))
	files := 0
	for _, argv := range ran {
		if files += len(argv) - 1; len(strings.Join(argv, " ")) > mostOperandBytes+10 {
			t.Errorf("a command line has %d arguments", len(argv))
		}
	}
	if files != 12_000 {
		t.Errorf("programs got %d files", files)
	}
}

// TestFindExecInterrupted: a program that did not run to its end says nothing about the file.
func TestFindExecInterrupted(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir+"/t/file", "")
	r := newRig(startServer(t, dir))
	r.Run = func(context.Context, []string) error { return context.Canceled }
	e, err := ParseExpression(strings.Fields("-type f ! -exec true ; -print -delete"))
	ok(t, err)
	if err = Find(t.Context(), r.Env, e, []string{"t"}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	_, err = os.Stat(dir + "/t/file")
	ok(t, err)
	if out, _ := r.take(); out != "" {
		t.Errorf("it printed %q", out)
	}
}

// TestFindDeletes compares what -delete leaves with GNU's find.
func TestFindDeletes(t *testing.T) {
	for _, expression := range []string{
		"-type f -delete", "-name a -delete", "-type f -delete -print", "-empty -delete",
		"-type d -empty -delete",
		"-size +1k -delete -o -type l -delete", "-mindepth 1 -delete", "-delete",
		"-name *.tar -delete -false -o -print", "-quit -delete",
	} {
		ours, theirs := t.TempDir(), t.TempDir()
		for _, dir := range []string{ours, theirs} {
			randomTree(t, 9, dir+"/tree", 3)
			ok(t, os.MkdirAll(dir+"/tree/e/m/p/t/y", 0o755))
		}
		words := strings.Fields(expression)
		want, code := tool(t, theirs, "find", append([]string{"tree"}, words...)...)
		r := newRig(startServer(t, ours))
		e, err := ParseExpression(words)
		ok(t, err)
		err = Find(t.Context(), r.Env, e, []string{"tree"})
		got, said := r.take()
		left, wantLeft := "", ""
		left, _ = tool(t, ours, "find", ".", "-printf", "%p %y\n")
		wantLeft, _ = tool(t, theirs, "find", ".", "-printf", "%p %y\n")
		if sortedLines(got) != sortedLines(want) || codeOf(err) != code ||
			sortedLines(left) != sortedLines(wantLeft) {
			t.Errorf("find tree %s: code %v, want %d, said %q\n%s\nwant\n%s\nleft\n%s\nwant\n%s",
				expression, err, code, said, got, want, left, wantLeft)
		}
	}
}

// TestFindMistakes: meaningless expressions are refused before anything is done.
func TestFindMistakes(t *testing.T) {
	t.Parallel()
	for _, expression := range []string{"-foo", "-name", "-type x", "-size", "-size x", "-size 1x",
		"( -name a", ")", "-o", "-name a -o", "!",
		"-mtime x", "-perm 9", "-maxdepth -1", "-maxdepth x", "-mmin nan", "-inum 3", "-name a )",
		"-type f,", "( )",
		"-exec", "-exec true", "-exec true {}", "-exec ;", "-exec {} ;", "-exec true {} {} +",
		"-exec /no/such/program ;", "-exec true +", "-printf", "-printf %i", "-printf %Tq",
		"-newermt", "-newermt yesterday", "-printf %.3f", "-printf %#m", "-printf %+d",
		"-name keep -prune -o -delete", "-delete -o ( -prune )"} {
		if _, err := ParseExpression(strings.Fields(expression)); err == nil {
			t.Errorf("%q was taken", expression)
		}
	}
	if _, err := ParseExpression([]string{"-depth", "-prune", "-delete"}); err != nil {
		t.Error(err)
	}
	if _, err := ParseExpression(slices.Repeat([]string{"!"}, 100_000)); err == nil {
		t.Error("deep nesting was taken")
	}
}

// TestWildcardIsShort: a pattern designed to be slow is not.
func TestWildcardIsShort(t *testing.T) {
	t.Parallel()
	if wildcard(strings.Repeat("*a", 2000)+"b", strings.Repeat("a", 4000), false) {
		t.Error("it matches")
	}
	for pattern, name := range map[string]string{"[": "[", "a[b": "a[b", `\*`: "*", "[]a]": "]",
		"[!]a]": "b", "[a-c-e]": "-",
		"*": "", "**": "x", "[^a]": "b", "?": "\xff", "[[:digit:]x]": "7", `[\]]`: "]"} {
		if !wildcard(pattern, name, false) {
			t.Errorf("%q does not match %q", name, pattern)
		}
	}
}

// TestDiskUsageIsDu compares sums with those of du --apparent-size.
func TestDiskUsageIsDu(t *testing.T) {
	for seed := range uint64(4) {
		dir := t.TempDir()
		randomTree(t, seed, dir+"/tree", 3)
		writeFile(t, dir+"/tree/d/f", "some")
		writeFile(t, dir+"/tree/d/e/g", "more")
		writeFile(t, dir+"/e/f", "another")
		writeFile(t, dir+"/other/e/f", "one more")
		ok(t, os.Symlink("other/d", dir+"/there"))
		ok(t, os.MkdirAll(dir+"/other/d", 0o755))
		r := newRig(startServer(t, dir))
		for _, test := range []struct {
			args  string
			o     DiskUsageOptions
			names []string
		}{
			{"-k", DiskUsageOptions{Depth: -1}, []string{"tree"}},
			{"-s", DiskUsageOptions{Summarize: true}, []string{"tree", "missing"}},
			{"-sb", DiskUsageOptions{Summarize: true, Bytes: true}, []string{"."}},
			{"-ab", DiskUsageOptions{All: true, Depth: -1, Bytes: true}, []string{"tree"}},
			{"-h", DiskUsageOptions{Human: true, Depth: -1}, []string{"tree"}},
			{"-d1", DiskUsageOptions{Depth: 1}, []string{"tree"}},
			// what several operands lead to counts once
			{"-bc", DiskUsageOptions{Depth: -1, Bytes: true, Total: true}, []string{"tree",
				"tree/d", "tree/d/f", "./tree", "tree/"}},
			{"-bc", DiskUsageOptions{Depth: -1, Bytes: true, Total: true}, []string{"tree/d/f",
				"tree/d/e/", "tree//d/e", "tree", "."}},
			{"-abc", DiskUsageOptions{All: true, Depth: -1, Bytes: true, Total: true},
				[]string{"tree/d/e", "there/../e/f", "there", "there/", "e/f", "tree", "there"}},
		} {
			want, code := tool(t, dir, "du", append([]string{"--apparent-size", test.args},
				test.names...)...)
			err := DiskUsage(t.Context(), r.Env, test.o, test.names)
			got, _ := r.take()
			if sortedLines(got) != sortedLines(want) || codeOf(err) != code {
				t.Errorf("seed %d: du %s %v: code %v, want %d\n%s\nwant\n%s", seed, test.args,
					test.names, err, code, got, want)
			}
		}
	}
}

// TestChangeModeIsChmod compares modes and exit codes with those of chmod.
func TestChangeModeIsChmod(t *testing.T) {
	ours, theirs := modesDir(t), modesDir(t)
	r := newRig(startServer(t, ours))
	modes := []string{"755", "0", "4755", "u+x", "go-rwx", "a=r", "+x", "-w", "=rw", "u=g",
		"g=u,o=g", "ug+s", "u-s,g+s", "+t", "a+rwXt", "u=rwX,go=rX",
		"o+u-x", "u+x-w", "00755", "=", "u=", "+X", "go=u-w", "ugo+rwx", "a-s", "g=s", "2775",
		"02775"}
	for _, recursive := range []bool{false, true} {
		for i, mode := range modes {
			tree := fmt.Sprintf("tree%d-%v", i, recursive)
			for _, dir := range []string{ours, theirs} {
				randomTree(t, uint64(i), dir+"/"+tree, 2)
				ok(t, os.Chmod(dir+"/"+tree, 0o755|os.ModeSetgid))
			}
			args := []string{"--", mode, tree, "missing"}
			if recursive {
				args = append([]string{"-R"}, args...)
			}
			_, code := tool(t, theirs, "chmod", args...)
			err := ChangeMode(t.Context(), r.Env,
				ChangeModeOptions{Mode: mode, Recursive: recursive}, []string{tree, "missing"})
			_, said := r.take()
			format := []string{tree, "-printf", "%p %m\n"}
			got, _ := tool(t, ours, "find", format...)
			want, _ := tool(t, theirs, "find", format...)
			if sortedLines(got) != sortedLines(want) || codeOf(err) != code {
				t.Errorf("chmod %v: code %v, want %d, said %q\n%s\nwant\n%s", args, err, code, said,
					sortedLines(got), sortedLines(want))
			}
		}
	}
	for _, mode := range []string{"", "8", "77777", "u", "u+", "z+x", "u+q", "u~x", "+x,", ",",
		"u=gw", "-", "755x"} {
		_, err := parseMode(mode)
		if _, code := tool(t, theirs, "chmod", "--", mode, "."); (code == 0) != (err == nil) {
			t.Errorf("mode %q: %v, chmod's code is %d", mode, err, code)
		}
	}
}

// TestStatusIsStat compares formats with those of stat.
func TestStatusIsStat(t *testing.T) {
	dir := t.TempDir()
	randomTree(t, 5, dir+"/tree", 1)
	whole := time.Unix(1_700_000_000, 0)
	names, _ := tool(t, dir, "find", "tree", "-type", "f", "-o", "-type", "d")
	list := strings.Split(strings.TrimSpace(names), "\n")
	for _, name := range list {
		ok(t, os.Chtimes(dir+"/"+name, whole, whole.Add(-time.Hour)))
	}
	r := newRig(startServer(t, dir))
	for _, format := range []string{"%n %s %a %A %f %F %u %g %U %G %X %Y %x %y %%",
		"[%10s] [%-12n] [%05a]"} {
		want, _ := tool(t, dir, "stat", append([]string{"-c", format}, list...)...)
		ok(t, Status(t.Context(), r.Env, StatusOptions{Format: format}, list))
		if got, _ := r.take(); got != want {
			t.Errorf("stat -c %q\n%s\nwant\n%s", format, got, want)
		}
		want, _ = tool(t, dir, "stat", append([]string{"--printf", format + `\n`}, list...)...)
		ok(t, Status(t.Context(), r.Env, StatusOptions{Format: format + `\n`, Plain: true}, list))
		if got, _ := r.take(); got != want {
			t.Errorf("stat --printf %q\n%s\nwant\n%s", format, got, want)
		}
	}
	ok(t, os.Symlink("nowhere", dir+"/broken"))
	_, code := tool(t, dir, "stat", "-L", "broken", list[0])
	err := Status(t.Context(), r.Env, StatusOptions{Follow: true}, []string{"broken", list[0]})
	if _, said := r.take(); codeOf(err) != code || !strings.Contains(said, "broken: no such file") {
		t.Errorf("stat -L of a broken link: %v, want code %d; %q", err, code, said)
	}
	err = Status(t.Context(), r.Env, StatusOptions{}, append(list, "missing"))
	if out, said := r.take(); codeOf(err) != 1 ||
		!strings.Contains(said, "missing: no such file") ||
		!strings.Contains(out, "Modify: 2023-11-14 2") {
		t.Errorf("%v %q %q", err, out, said)
	}
}

// TestHeadAndTailAreTheirs compares contents.
func TestHeadAndTailAreTheirs(t *testing.T) {
	dir := t.TempDir()
	var long strings.Builder
	for i := range 60_000 {
		fmt.Fprintf(&long, "line %d %s\n", i, strings.Repeat("x", i%97))
	}
	writeFile(t, dir+"/long", long.String())
	writeFile(t, dir+"/short", "a\nb\nc\n")
	writeFile(t, dir+"/unended", "a\nb\nc")
	writeFile(t, dir+"/empty", "")
	writeFile(t, dir+"/oneline", strings.Repeat("y", 300_000))
	files := []string{"long", "short", "unended", "empty", "oneline"}
	r := newRig(startServer(t, dir))
	for _, verb := range []string{"head", "tail"} {
		for _, bytes := range []bool{false, true} {
			for _, n := range []int64{0, 1, 2, 3, 10, 1000, 70_000, 400_000} {
				for _, other := range []bool{false, true} {
					flag, sign := "-n", ""
					if bytes {
						flag = "-c"
					}
					if other {
						sign = map[string]string{"head": "-", "tail": "+"}[verb]
					}
					want, code := tool(t, dir, verb, append([]string{flag, fmt.Sprint(sign, n)},
						files...)...)
					o := HeadOptions{Count: n, Bytes: bytes, Other: other}
					var err error
					if verb == "head" {
						err = Head(t.Context(), r.Env, o, files)
					} else {
						err = Tail(t.Context(), r.Env, TailOptions{HeadOptions: o}, files)
					}
					if got, said := r.take(); got != want || codeOf(err) != code {
						t.Errorf("%s %s %s%d: %d bytes, want %d; %v %q", verb, flag, sign, n,
							len(got), len(want), err, said)
					}
				}
			}
		}
	}
	want, code := tool(t, dir, "cat", append(files, "missing", ".", "short")...)
	err := Concatenate(t.Context(), r.Env, ConcatenateOptions{},
		append(files, "missing", ".", "short"))
	if got, said := r.take(); got != want || codeOf(err) != code ||
		!strings.Contains(said, "directory") {
		t.Errorf("cat: %d bytes, want %d; %v %q", len(got), len(want), err, said)
	}
	want, _ = tool(t, dir, "cat", "-n", "unended", "short")
	ok(t, Concatenate(t.Context(), r.Env, ConcatenateOptions{Number: true},
		[]string{"unended", "short"}))
	if got, _ := r.take(); got != want {
		t.Errorf("cat -n: %q, want %q", got, want)
	}
}
