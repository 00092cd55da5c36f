//go:build unix

package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// A fleet is several sshds whose sessions start in their own directories.
type fleet struct {
	config string
	names  []string
	list   string // for --hosts
	dirs   map[string]string
	ports  map[string]int
}

// startFleet starts sshds named web1, web2 and so on.
func startFleet(t *testing.T, n int) *fleet {
	t.Helper()
	f := &fleet{dirs: make(map[string]string), ports: make(map[string]int)}
	server := opensshd.Find(t, "sftp-server")
	var blocks []string
	for i := 1; i <= n; i++ {
		name := fmt.Sprintf("web%d", i)
		dir := t.TempDir()
		s := opensshd.Start(t, opensshd.Options{Alias: name, ClientConfig: blocks,
			Config: []string{"Subsystem sftp " + server + " -d " + dir}})
		blocks = append(blocks, s.ClientBlock())
		f.config = s.ConfigFile
		f.names, f.dirs[name], f.ports[name] = append(f.names, name), dir, s.Port
	}
	f.list = strings.Join(f.names, ",")
	return f
}

// also returns a configuration that has another host too.
func (f *fleet) also(t *testing.T, lines ...string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "config")
	writeFile(t, name, append([]byte(strings.Join(lines, "\n")+"\n"), readFile(t, f.config)...))
	return name
}

// has checks that each of some hosts has a file.
func (f *fleet) has(t *testing.T, name string, want []byte, hosts ...string) {
	t.Helper()
	for _, host := range hosts {
		got, err := os.ReadFile(filepath.Join(f.dirs[host], name))
		if err != nil {
			t.Errorf("%s: %v", host, err)
		} else if !bytes.Equal(got, want) {
			t.Errorf("%s has another %s", host, name)
		}
	}
}

// onLine is a line of --json with several hosts, with the fields that the tests check.
type onLine struct {
	On, Kind             string
	Code, Hosts, Failed  int
	Files, Bytes, Copied int64
	Elapsed              time.Duration `json:"elapsed_ns"`
}

func onLines(t *testing.T, stdout string) (lines []onLine) {
	t.Helper()
	for text := range strings.Lines(stdout) {
		var line onLine
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		lines = append(lines, line)
	}
	return lines
}

// TestManyUploads: a file, a stream and a tree go to three hosts, and the source is read once.
func TestManyUploads(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3)
	dir := t.TempDir()
	data := randomData(5 << 20)
	writeFile(t, filepath.Join(dir, "file"), data)
	read := regexp.MustCompile(`(?m)^5\.24 MB read on this machine$`)

	t.Run("file", func(t *testing.T) {
		got := run(t, dir, "cp", "-v", "-F", f.config, "--hosts", f.list, "file", ":")
		if got.code != ui.ExitOK || !read.MatchString(got.stderr) {
			t.Errorf("%+v", got)
		}
		f.has(t, "file", data, f.names...)
		for _, want := range []string{`(?m)^web2: copied file to web2:file: 5\.24 MB`,
			`(?m)^host +result +files +size +time +rate$`, `(?m)^web3 +ok +1 +5\.24 MB `,
			`(?m)^3 hosts +0 failed +3 +15\.7 MB `} {
			if !regexp.MustCompile(want).MatchString(got.stderr) {
				t.Errorf("nothing matches %s:\n%s", want, got.stderr)
			}
		}
	})
	t.Run("named pipe", func(t *testing.T) {
		pipe := filepath.Join(dir, "pipe")
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
		go func() {
			w, err := os.OpenFile(pipe, os.O_WRONLY, 0)
			if err == nil {
				w.Write(data)
				w.Close()
			}
		}()
		got := run(t, dir, "cp", "-v", "-F", f.config, "--hosts", f.list, "pipe", ":.")
		if got.code != ui.ExitOK || !read.MatchString(got.stderr) {
			t.Errorf("%+v", got)
		}
		f.has(t, "pipe", data, f.names...)
	})
	t.Run("standard input, hosts in a file", func(t *testing.T) {
		writeFile(t, filepath.Join(dir, "hosts"),
			[]byte("# the fleet\nweb1\n  web2 # twice\n\nweb2\nweb3\n"))
		cmd := command(t, dir, "cp", "-F", f.config, "--hosts-file", "hosts", "-", ":in")
		cmd.Stdin = io.MultiReader(bytes.NewReader(data)) // not a file
		if got := finish(t, cmd); got.code != ui.ExitOK || got.stderr != "" {
			t.Errorf("%+v", got)
		}
		f.has(t, "in", data, f.names...)
	})
	t.Run("tree", func(t *testing.T) {
		for _, name := range []string{"tree/a", "tree/deep/b"} {
			os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755)
			writeFile(t, filepath.Join(dir, name), []byte(name))
		}
		writeFile(t, filepath.Join(dir, "tree", "big"), data)
		got := run(t, dir, "cp", "-r", "-v", "-F", f.config, "--hosts", f.list, "--verify", "tree",
			":")
		if got.code != ui.ExitOK || !read.MatchString(got.stderr) {
			t.Errorf("%+v", got)
		}
		for _, name := range []string{"tree/a", "tree/deep/b"} {
			f.has(t, name, []byte(name), f.names...)
		}
		f.has(t, "tree/big", data, f.names...)
	})
	t.Run("few at once", func(t *testing.T) {
		got := run(t, dir, "cp", "-F", f.config, "--hosts", f.list, "--parallel=1", "file", ":one")
		if got.code != ui.ExitOK {
			t.Errorf("%+v", got)
		}
		f.has(t, "one", data, f.names...)
	})
	t.Run("on each host", func(t *testing.T) {
		got := run(t, dir, "cp", "-F", f.config, "--hosts", f.list, ":file", ":copy")
		if got.code != ui.ExitOK {
			t.Errorf("%+v", got)
		}
		f.has(t, "copy", data, f.names...)
	})
}

// TestManyWithAKeyInAPipe: what -i <(program) gives can be read only once, and serves for all hosts.
func TestManyWithAKeyInAPipe(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 1)
	key, config := "", ""
	for line := range strings.Lines(string(readFile(t, f.config))) {
		if name, found := strings.CutPrefix(strings.TrimSpace(line), "IdentityFile "); found {
			key = name
		} else {
			config += strings.Replace(line, "Host web1", "Host web1 too", 1)
		}
	}
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "config"), []byte(config))
	writeFile(t, filepath.Join(f.dirs["web1"], "file"), nil)
	c := command(t, dir, "ls", "--config", "config", "--hosts", "web1,too", ":file")
	bash := exec.Command(testenv.Program(t, "bash"), append([]string{"-c",
		`"$0" "$@" -i <(cat ` + key + `)`, c.Path}, c.Args[1:]...)...)
	bash.Dir, bash.Env = c.Dir, append(c.Env, "SSH_AUTH_SOCK=")
	if o := finish(t, bash); o.code != 0 || strings.Count(o.stdout, "file") != 2 {
		t.Errorf("code %d: %s%s", o.code, o.stdout, o.stderr)
	}
}

// TestManyFromHost: a file and a tree on one host go to others, are read once, and are logged in to
// once. A host that is the source too keeps its file.
func TestManyFromHost(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3)
	dir := t.TempDir()
	data := randomData(5 << 20)
	on := f.dirs["web1"]
	old := time.Now().Add(-time.Hour)
	for name, data := range map[string][]byte{"file": data, "tree/big": data,
		"tree/deep/small": []byte("small")} {
		name = filepath.Join(on, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		writeFile(t, name, data)
		if err := os.Chtimes(name, old, old); err != nil {
			t.Fatal(err)
		}
	}
	to := []string{"web2", "web3"}
	read := regexp.MustCompile(`(?m)^5\.24 MB read on web1$`)
	got := run(t, dir, "cp", "-v", "-F", f.config, "--hosts", "web2,web3", "web1:file", ":copy")
	if got.code != ui.ExitOK || !read.MatchString(got.stderr) {
		t.Errorf("%+v", got)
	}
	f.has(t, "copy", data, to...)
	got = run(t, dir, "cp", "-r", "-v", "-F", f.config, "--hosts", "web2,web3", "web1:tree", ":")
	if got.code != ui.ExitOK || !read.MatchString(got.stderr) {
		t.Errorf("%+v", got)
	}
	f.has(t, "tree/big", data, to...)
	f.has(t, "tree/deep/small", []byte("small"), to...)
	got = run(t, dir, "sync", "-F", f.config, "--hosts", "web2,web3", "web1:tree", ":synced")
	if got.code != ui.ExitOK {
		t.Errorf("%+v", got)
	}
	f.has(t, "synced/big", data, to...)

	got = run(t, dir, "cp", "--inplace", "-F", f.config, "--hosts", f.list, "web1:file", ":file")
	if got.code != ui.ExitFailed || !strings.Contains(got.stderr, "usftp: web1: cannot copy") {
		t.Errorf("%+v", got)
	}
	f.has(t, "file", data, f.names...)

	nobody := f.also(t, "Host nobody", "\tHostName 127.0.0.1", "\tPort "+
		listen(t, func(c net.Conn) { c.Close() }))
	got = run(t, dir, "cp", "-F", nobody, "--hosts", "web2,web3", "nobody:file", ":")
	if got.code != ui.ExitNoHost || strings.Count(got.stderr, "\n") != 1 ||
		!strings.Contains(got.stderr, "nobody") {
		t.Errorf("%+v", got)
	}
	writeFile(t, filepath.Join(dir, "web1:file"), nil)
	got = run(t, dir, "cp", "-F", f.config, "--hosts", "web2,web3", "web1:file", ":")
	if got.code != 2 || !strings.Contains(got.stderr, "write ./web1:file") {
		t.Errorf("%+v", got)
	}
}

// TestManyDownloads: files from a host go into a directory with its name.
func TestManyDownloads(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 2)
	dir := t.TempDir()
	for _, name := range f.names {
		writeFile(t, filepath.Join(f.dirs[name], "a.log"), []byte("a of "+name))
		writeFile(t, filepath.Join(f.dirs[name], "b.log"), []byte("b of "+name))
	}
	got := run(t, dir, "cp", "-F", f.config, "--hosts", f.list, ":*.log", "logs")
	if got.code != ui.ExitOK {
		t.Fatalf("%+v", got)
	}
	for _, name := range f.names {
		for _, file := range []string{"a", "b"} {
			data := readFile(t, filepath.Join(dir, "logs", name, file+".log"))
			if string(data) != file+" of "+name {
				t.Errorf("%s of %s holds %q", file, name, data)
			}
		}
	}
	got = run(t, dir, "cp", "-r", "-F", f.config, "--hosts", f.list, ":.", "trees")
	if got.code != ui.ExitOK {
		t.Fatalf("%+v", got)
	}
	if data := readFile(t, filepath.Join(dir, "trees", "web2", "a.log")); string(
		data) != "a of web2" {
		t.Errorf("it holds %q", data)
	}
}

// TestManySync: each host gets an equal directory, with differences read once, and directories of
// the hosts are downloaded concurrently.
func TestManySync(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 2)
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "site"), 0o755); err != nil {
		t.Fatal(err)
	}
	data := randomData(1 << 20)
	writeFile(t, filepath.Join(dir, "site", "index"), []byte("hello"))
	writeFile(t, filepath.Join(dir, "site", "big"), data)
	sync := func(args ...string) outcome {
		return run(t, dir, append([]string{"sync", "-F", f.config, "--hosts", f.list}, args...)...)
	}
	got := sync("site", ":www")
	if got.code != ui.ExitOK || strings.Contains(got.stderr, "cannot") {
		t.Fatalf("%+v", got)
	}
	f.has(t, "www/index", []byte("hello"), f.names...)
	f.has(t, "www/big", data, f.names...)

	writeFile(t, filepath.Join(dir, "site", "index"), []byte("hello again"))
	got = sync("--json", "site", ":www")
	lines := onLines(t, got.stdout)
	if last := lines[len(lines)-1]; got.code != ui.ExitOK || last.Kind != "hosts" ||
		last.Files != 2 {
		t.Errorf("in the end %+v: %+v", last, got)
	}
	f.has(t, "www/index", []byte("hello again"), f.names...)

	if got = sync("-n", ":www", "back"); got.code != ui.ExitOK {
		t.Errorf("%+v", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "back")); err == nil {
		t.Error("a dry run has made a directory")
	}
	if got = sync(":www", "back"); got.code != ui.ExitOK {
		t.Errorf("%+v", got)
	}
	for _, name := range f.names {
		if back := readFile(t, filepath.Join(dir, "back", name, "big")); !bytes.Equal(back, data) {
			t.Errorf("%s came back changed", name)
		}
	}
	if got = sync("site", "c:www"); got.code != 2 ||
		!strings.Contains(got.stderr, "c:www names one host") {
		t.Errorf("%+v", got)
	}
}

// TestManyVerbs: the commands for files work on each host, and their output names the host on each
// line.
func TestManyVerbs(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3)
	dir := t.TempDir()
	for _, name := range f.names {
		writeFile(t, filepath.Join(f.dirs[name], "f"), []byte("of "+name+"\nand more"))
	}
	on := func(args ...string) outcome {
		return run(t, dir, append(args, "--config", f.config, "--hosts", f.list)...)
	}
	// sorted, since the hosts are worked on concurrently
	sorted := func(text string) string {
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		slices.Sort(lines)
		return strings.Join(lines, "\n")
	}
	each := func(format string) string {
		var lines []string
		for _, name := range f.names {
			lines = append(lines, strings.ReplaceAll(format, "HOST", name))
		}
		return strings.Join(lines, "\n")
	}
	for _, test := range []struct {
		name   string
		args   []string
		stdout string
	}{
		{"ls", []string{"ls", ":"}, each("HOST: f")},
		{"cat", []string{"cat", ":f"}, each("HOST: and more\nHOST: of HOST")},
		{"mkdir", []string{"mkdir", "-p", ":a/b"}, ""},
		{"head", []string{"head", "-1", ":f"}, each("HOST: of HOST")},
		{"chmod", []string{"chmod", "600", ":f"}, ""},
		{"chmod -x", []string{"chmod", "-x", ":f"}, ""},
		{"mv", []string{"mv", ":f", ":a/g"}, ""},
		{"find", []string{"find", ":a", "-type", "f"}, each("HOST: a/g")},
		{"rm -v", []string{"rm", "-rv", ":a/g"}, each("HOST: removed 'a/g'")},
		{"patterns", []string{"ls", "-d", ":a*"}, each("HOST: a")},
	} {
		got := on(test.args...)
		if got.code != ui.ExitOK || got.stderr != "" || sorted(got.stdout) != sorted(test.stdout) {
			t.Errorf("%s: exit code %d, %q, %s; want %q", test.name, got.code, got.stdout,
				got.stderr, test.stdout)
		}
	}

	os.RemoveAll(filepath.Join(f.dirs["web2"], "a"))
	got := on("ls", "--json", ":a")
	lines := onLines(t, got.stdout)
	if last := lines[len(lines)-1]; got.code != 2 || last.Kind != "hosts" || last.Failed != 1 ||
		last.Hosts != 3 {
		t.Errorf("in the end %+v: %+v", last, got)
	}
	failed := 0
	for _, line := range lines {
		if line.Kind == "host" && line.Code != 0 {
			if failed++; line.On != "web2" {
				t.Errorf("%+v", line)
			}
		}
	}
	if failed != 1 || !strings.Contains(got.stderr, "usftp: web2: cannot access web2:a") {
		t.Errorf("%d failed: %s", failed, got.stderr)
	}
	for _, test := range []struct {
		args, says string
		code       int
	}{
		{"rm -i :f", "-i cannot be used with --hosts", 1},
		{"ls c:f", "c:f names one host", 2},
		{"ls f", "needs a path on each host", 2},
		{"ls", "missing operand", 2},
	} {
		if got := on(strings.Fields(test.args)...); got.code != test.code ||
			!strings.Contains(got.stderr, test.says) {
			t.Errorf("%s: %+v", test.args, got)
		}
	}
}

// TestManyFailures: a host that cannot be reached, and one that refuses the file, do not affect the
// others; the exit code is the worst; --retry-failed works only on those that failed.
func TestManyFailures(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3)
	dir, home := t.TempDir(), t.TempDir()
	data := randomData(1 << 20)
	writeFile(t, filepath.Join(dir, "file"), data)
	bad := f.also(t, "Host dead", "\tHostName 127.0.0.1",
		fmt.Sprint("\tPort ", testenv.RefusedPort(t)))
	good := f.also(t, "Host dead", "\tHostName 127.0.0.1",
		fmt.Sprintf("\tPort %d\n\tHostKeyAlias [127.0.0.1]:%d", f.ports["web3"], f.ports["web3"]),
		strings.ReplaceAll(f.block(t, "web3"), "Host web3", "Host dead"))
	if err := os.MkdirAll(filepath.Join(f.dirs["web2"], "dir", "file"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"web1", "web3"} {
		if err := os.Mkdir(filepath.Join(f.dirs[name], "dir"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	in := func(args ...string) outcome {
		cmd := command(t, dir, args...)
		cmd.Env = append(cmd.Env, "HOME="+home, "XDG_STATE_HOME=")
		return finish(t, cmd)
	}
	got := in("cp", "-F", bad, "--hosts", "web1,web2,dead", "file", ":dir")
	if got.code != ui.ExitNoHost {
		t.Errorf("exit code %d: %s", got.code, got.stderr)
	}
	f.has(t, "dir/file", data, "web1")
	for _, want := range []string{
		`(?m)^usftp: web2: cannot copy file to web2:.*: is a directory`,
		`(?m)^usftp: dead: the connection to .* was refused`, `(?m)^web1 +ok +1 `, `(?m)^web2 +failed +0 `,
		`(?m)^dead +no connection +0 `, `(?m)^3 hosts +2 failed +1 `,
		`(?m)^usftp: 2 of 3 hosts failed; to run again on those: usftp cp --retry-failed -F \S+ --hosts web1,web2,dead file :dir$`} {
		if !regexp.MustCompile(want).MatchString(got.stderr) {
			t.Errorf("nothing matches %s:\n%s", want, got.stderr)
		}
	}

	in("cp", "-n", "-F", good, "--hosts", "web1,web2,dead", "file", ":dir") // shows nothing

	// where nothing is recorded, nobody is told to go on from there
	unrecorded := finish(t, func() *exec.Cmd {
		cmd := command(t, dir, "cp", "-F", bad, "--hosts", "web1,dead", "file", ":dir")
		cmd.Env = append(cmd.Env, "HOME="+home, "XDG_STATE_HOME="+filepath.Join(dir, "file"))
		return cmd
	}())
	for _, got := range []outcome{unrecorded,
		in("cp", "-n", "-F", bad, "--hosts", "web1,dead", "file", ":dir")} {
		if !strings.HasSuffix(got.stderr, "usftp: 1 of 2 hosts failed\n") {
			t.Error(got.stderr)
		}
	}

	// now web2 is fixed, and only it and the dead host are tried again
	os.RemoveAll(filepath.Join(f.dirs["web2"], "dir", "file"))
	os.Remove(filepath.Join(f.dirs["web1"], "dir", "file"))
	retry := []string{"cp", "--json", "--retry-failed", "-F", bad, "--hosts", "web1,web2,dead",
		"file", ":dir"}
	got = in(retry...)
	lines := onLines(t, got.stdout)
	last := lines[len(lines)-1]
	if got.code != ui.ExitNoHost || last.Kind != "hosts" || last.Hosts != 2 || last.Failed != 1 ||
		last.Code != ui.ExitNoHost || last.Files != 1 || last.Bytes != int64(len(data)) {
		t.Errorf("exit code %d, in the end %+v: %s", got.code, last, got.stderr)
	}
	f.has(t, "dir/file", data, "web2")
	if _, err := os.Stat(filepath.Join(f.dirs["web1"], "dir", "file")); err == nil {
		t.Error("the file went to web1 again")
	}

	retry[4] = good
	if got = in(retry...); got.code != ui.ExitOK {
		t.Errorf("%+v", got)
	}
	f.has(t, "dir/file", data, "web3")
	if got = in(retry...); got.code != ui.ExitFailed ||
		!strings.Contains(got.stderr, "no host failed in the last run of this command") {
		t.Errorf("%+v", got)
	}

	// find, whose flags are not told apart from its expression at first, is the same command, too
	find := []string{"find", "--config", bad, "--hosts", "web1,dead", ":dir", "-name", "f*"}
	if got = in(find...); got.code != ui.ExitNoHost {
		t.Errorf("%+v", got)
	}
	find[2] = good
	if got = in(append(find, "--retry-failed")...); got.code != ui.ExitOK ||
		got.stdout != "dead: dir/file\n" {
		t.Errorf("%+v", got)
	}
}

// block returns the configuration's block for one host.
func (f *fleet) block(t *testing.T, name string) string {
	t.Helper()
	_, block, _ := strings.Cut(string(readFile(t, f.config)), "Host "+name+"\n")
	block, _, _ = strings.Cut(block, "Host ")
	return "Host " + name + "\n" + block
}

// TestManySilent: hosts that accept a connection and fall silent sooner or later hold up the
// summary for as long as ConnectTimeout says.
func TestManySilent(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 1)
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "file"), []byte("hello"))
	blocks := []string{"ConnectTimeout 5"}
	for name, says := range map[string]string{"mute": "", "hoarse": "SSH-2.0-x\r\n"} {
		port := listen(t, func(c net.Conn) { io.WriteString(c, says) })
		blocks = append(blocks, "Host "+name, "HostName 127.0.0.1", "Port "+port)
	}
	stopped := filepath.Join(dir, "stopped") // the processes of asleep's connection
	asleep := opensshd.Start(t, opensshd.Options{Alias: "asleep", Config: []string{
		"Subsystem sftp echo $PPID $$ >>" + stopped + "; kill -STOP $PPID; exec sleep 1000"}})
	t.Cleanup(func() {
		for _, id := range strings.Fields(string(readFile(t, stopped))) {
			if pid, err := strconv.Atoi(id); err == nil {
				syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	})
	config := f.also(t, append(blocks, asleep.ClientBlock())...)
	began := time.Now()
	got := run(t, dir, "cp", "-F", config, "--hosts", "mute,hoarse,asleep,web1", "file", ":")
	if took := time.Since(began); got.code != ui.ExitNoHost || took > 30*time.Second {
		t.Errorf("after %v: %+v", took, got)
	}
	for _, want := range []string{`(?m)^usftp: mute: no answer within 5s while connecting`,
		`(?m)^usftp: hoarse: no answer within 5s while connecting`,
		`(?m)^usftp: asleep: no answer within 5s while (asking for|starting) sftp`,
		`(?m)^web1 +ok +1 `,
		`(?m)^4 hosts +3 failed +1 `} {
		if !regexp.MustCompile(want).MatchString(got.stderr) {
			t.Errorf("nothing matches %s:\n%s", want, got.stderr)
		}
	}
	f.has(t, "file", []byte("hello"), "web1")
}

// TestManyJSON: each line names its host, and the last lines sum up.
func TestManyJSON(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 2)
	dir := t.TempDir()
	data := randomData(1 << 20)
	writeFile(t, filepath.Join(dir, "file"), data)
	got := run(t, dir, "cp", "--json", "-F", f.config, "--hosts", f.list, "file", ":")
	if got.code != ui.ExitOK || got.stderr != "" {
		t.Fatalf("%+v", got)
	}
	seen := make(map[string]int)
	lines := onLines(t, got.stdout)
	for _, line := range lines[:len(lines)-1] {
		seen[line.On+" "+line.Kind]++
		if line.Kind == "host" && (line.Code != 0 || line.Files != 1 ||
			line.Bytes != int64(len(data)) || line.Elapsed <= 0) {
			t.Errorf("%+v", line)
		}
	}
	for _, name := range f.names {
		for _, kind := range []string{"started", "done", "exit", "host"} {
			if seen[name+" "+kind] != 1 {
				t.Errorf("%d lines of kind %s for %s", seen[name+" "+kind], kind, name)
			}
		}
	}
	if last := lines[len(lines)-1]; last.Kind != "hosts" || last.On != "" || last.Hosts != 2 ||
		last.Failed != 0 || last.Files != 2 || last.Bytes != 2*int64(len(data)) {
		t.Errorf("in the end %+v", last)
	}
}

// TestManySlow: a host behind a slow link does not delay the others.
func TestManySlow(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3)
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "file"), randomData(4<<20))
	fast := make(chan struct{}) // the others are done
	port := listen(t, func(client net.Conn) {
		server, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", f.ports["web2"]))
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { server.Close() })
		go func() {
			io.CopyN(server, client, 1<<20)
			<-fast
			io.Copy(server, client)
		}()
		go io.Copy(client, server)
	})
	cmd := command(t, dir, "cp", "--json", "-F", f.also(t, "Host web2", "\tPort "+port,
		fmt.Sprintf("\tHostKeyAlias [127.0.0.1]:%d", f.ports["web2"])), "--hosts", f.list, "file",
		":")
	events, stderr := started(t, cmd)
	done := make(map[string]bool)
	for events.Scan() {
		var line onLine
		if err := json.Unmarshal(events.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		if line.Kind != "host" {
			continue
		}
		if done[line.On] = true; line.Code != 0 {
			t.Errorf("%+v: %s", line, stderr)
		}
		if len(done) == 2 {
			if done["web2"] {
				t.Error("the slow host is done before the others")
			}
			close(fast)
		}
	}
	if cmd.Wait() != nil || len(done) != 3 {
		t.Errorf("%v: %s", done, stderr)
	}
}

// TestManyQuestions: passwords are asked for one host at a time, by name, and each host has a line
// on the screen.
func TestManyQuestions(t *testing.T) {
	t.Parallel()
	dirs := make(map[string]string)
	var list []string
	for _, user := range []string{"one", "two"} {
		dir, port := passwordServer(t)
		dirs[user] = dir
		list = append(list, user+"@127.0.0.1:"+port)
	}
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "file"), []byte("the file"))
	s := onScreen(t, 100, command(t, dir, "cp", "-F", "none", "-o", "UserKnownHostsFile=none", "-o",
		"StrictHostKeyChecking=no", "--hosts", strings.Join(list, ","), "file", ":"))
	question := `(one|two)@127\.0\.0\.1.*(?i:password): $`
	s.await(question)
	first := regexp.MustCompile(question).FindStringSubmatch(s.shown.String())[1]
	second := map[string]string{"one": "two", "two": "one"}[first]
	s.typed(secret + "\n")
	s.await(second + `@127\.0\.0\.1.*(?i:password): $`)
	s.typed(secret + "\n")
	if code := s.End(); code != 0 {
		t.Errorf("exit code %d: %q", code, &s.shown)
	}
	for user, dir := range dirs {
		if got := string(readFile(t, filepath.Join(dir, "file"))); got != "the file" {
			t.Errorf("%s has %q", user, got)
		}
	}
	s.await(`one@127\.0\.0\.1:\d+ +ok +1 `)
	s.await(`2 hosts +0 failed +2 `)
}

// TestManyUsage: ambiguous command lines are refused before anything is done.
func TestManyUsage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "file"), []byte("the file"))
	writeFile(t, filepath.Join(dir, "empty"), []byte("# nobody\n"))
	writeFile(t, filepath.Join(dir, "two"), []byte("a b\n"))
	if err := exec.Command("mkfifo", filepath.Join(dir, "pipe")).Run(); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, args string
		code       int
		says       string
	}{
		{"no path on each", "--hosts a,b file dir", 2, `--hosts needs a path on each host`},
		{"one host named", "--hosts a,b file c:dir", 2,
			`c:dir names one host: with --hosts, write :path`},
		{"mixed sources", "--hosts a,b file :x dir", 2,
			`either all sources are paths on each host`},
		{"download to a stream", "--hosts a,b :x -", 2, `--hosts cannot copy to -`},
		{"stream among others", "--hosts a,b - file :x", 2, `standard input \(-\) has no name`},
		{"a path in the list", "--hosts a,b:x file :x", 1, `"b:x": a host in the list must not have a path`},
		{"no directory's name", "--hosts a,.. file :x", 1, `"\.\."`},
		{"no host in the file", "--hosts-file empty file :x", 1, `no hosts in the file`},
		{"two on a line", "--hosts-file two file :x", 1, `line 1: more than one host on a line`},
		{"no file", "--hosts-file none file :x", 1, `--hosts-file none: `},
		{"an empty list", "--hosts= file :x", 2, `need at least one host`},
		{"parallel alone", "--parallel 3 file :x", 2, `--parallel needs --hosts`},
		{"parallel of none", "--hosts a --parallel 0 file :x", 2, `--parallel must be at least 1`},
		{"a stream to some at once", "--hosts a,b,c --parallel 2 - :x", 1, `give --parallel 3`},
		{"a pipe among others", "--hosts a,b pipe file :x", 1, `pipe can be read only once`},
		{"a list of hashes", "--hosts a,b --manifest m file :x", 2, `--manifest writes one list`},
		{"no impatience", "--hosts a,b --patience 0s - :x", 2, `--patience must be`},
		{"a list for a stream", "--hosts a,b --files-from two - :x", 2, `--files-from needs exactly one SRC`},
		{"two from standard input", "--hosts-file - - :x", 2, `standard input \(-\) can only be read once`},
		{"nothing failed", "--hosts a,b --retry-failed file :x", 1,
			`no host failed in the last run`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := run(t, dir, append([]string{"cp", "-F", "none"},
				strings.Fields(test.args)...)...)
			if got.code != test.code || !regexp.MustCompile(test.says).MatchString(got.stderr) {
				t.Errorf("exit code %d: %s", got.code, got.stderr)
			}
		})
	}
}
