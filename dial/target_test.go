package dial

import (
	"runtime"
	"strings"
	"testing"
)

func TestParseTarget(t *testing.T) {
	for _, c := range []struct {
		in     string
		want   Target
		remote bool
	}{
		{"host:path", Target{Host: "host", Path: "path"}, true},
		{"host:", Target{Host: "host"}, true},
		{"host:/abs/a:b", Target{Host: "host", Path: "/abs/a:b"}, true},
		{"me@host:a b", Target{User: "me", Host: "host", Path: "a b"}, true},
		{`CORP\me@host:x`, Target{User: `CORP\me`, Host: "host", Path: "x"}, true},
		{"my name@host:x", Target{User: "my name", Host: "host", Path: "x"}, true},
		{"me@corp@host:x", Target{User: "me@corp", Host: "host", Path: "x"}, true},
		{"host:~/x", Target{Host: "host", Path: "x"}, true},
		{"host:~", Target{Host: "host"}, true},
		{"host:~/~x", Target{Host: "host", Path: "./~x"}, true},
		{"host:~other/x", Target{Host: "host", Path: "~other/x"}, true},
		{"[::1]:path", Target{Host: "::1", Path: "path"}, true},
		{"me@[fe80::1%eth0]:/p", Target{User: "me", Host: "fe80::1%eth0", Path: "/p"}, true},
		{"[host]:p", Target{Host: "host", Path: "p"}, true},
		{"cafe::module/x", Target{Host: "cafe", Path: ":module/x"}, true},
		{"sftp://host", Target{Host: "host"}, true},
		{"sftp://host/", Target{Host: "host", Path: "/"}, true},
		{"SFTP://me@host:2222/a/b", Target{User: "me", Host: "host", Port: 2222, Path: "/a/b"},
			true},
		{"sftp://[::1]:22/x", Target{Host: "::1", Port: 22, Path: "/x"}, true},
		{"sftp://host/~/a", Target{Host: "host", Path: "a"}, true},
		{"sftp://host/~", Target{Host: "host"}, true},
		{"sftp://host/a%20b%25?c#d", Target{Host: "host", Path: "/a b%?c#d"}, true},
		{"sftp://m%40e@host/a", Target{User: "m@e", Host: "host", Path: "/a"}, true},
		{"scp://me@host:2222/a/b", Target{User: "me", Host: "host", Port: 2222, Path: "a/b"}, true},
		{"scp://host//a", Target{Host: "host", Path: "/a"}, true},
		{"scp://host/~/a", Target{Host: "host", Path: "a"}, true},
		{"scp://host", Target{Host: "host"}, true},
		{"web://x", Target{Host: "web", Path: "//x"}, true}, // to scp, a host called web
		{"http:x", Target{Host: "http", Path: "x"}, true},
		{"file", Target{}, false},
		{"./a:b", Target{}, false},
		{"/a:b", Target{}, false},
		{"dir/a:b", Target{}, false},
		{":x", Target{}, false},
		{"", Target{}, false},
		{"[x/]:y", Target{}, false},
	} {
		got, remote, err := ParseTarget(c.in)
		if err != nil || got != c.want || remote != c.remote {
			t.Errorf("ParseTarget(%q) = %+v, %v, %v; want %+v, %v", c.in, got, remote, err, c.want,
				c.remote)
		}
	}
	got, remote, err := ParseTarget("C:x")
	if wantRemote := runtime.GOOS != "windows"; err != nil || remote != wantRemote {
		t.Errorf("ParseTarget(C:x) = %+v, %v, %v on %s", got, remote, err, runtime.GOOS)
	}
}

// TestWindowsPaths: whether a path or a host is meant, in what only Windows takes for a path.
func TestWindowsPaths(t *testing.T) {
	for in, want := range map[string]bool{"C:x": true, `c:\x`: true, `C:/x`: true, `\\?\C:\x`: true,
		`\\.\C:x`: true, `\\server\share\a:b`: true, `dir\file:stream`: true, `.\a:b`: true, `..\a@b:c`: true,
		`\a@b:c`: true, `.a\b:c`: true, "host:x": false, `host:\x`: false, `DOMAIN\user@host:x`: false,
		`DOMAIN\user@host:a\b`: false, "cd:x": false, "..:x": false, "1:x": false} {
		if got := isWindowsPath(in, strings.IndexByte(in, ':')); got != want {
			t.Errorf("%q is a path: %v", in, got)
		}
	}
	target, remote, err := ParseTarget(`DOMAIN\user@host:x`)
	if want := (Target{User: `DOMAIN\user`, Host: "host", Path: "x"}); err != nil || !remote || target != want {
		t.Errorf("%+v, %v, %v", target, remote, err)
	}
}

func TestParseTargetRefuses(t *testing.T) {
	for _, c := range []struct{ in, says string }{
		{"-oProxyCommand=x:y", "starts with '-'"},
		{"-x@host:y", "starts with '-'"},
		{"me@-host:y", "starts with '-'"},
		{"@host:y", "empty"},
		{"me@:y", "no host"},
		{"me@::1:y", "an IPv6 address needs brackets: [::1]:y"},
		{"fe80::1%eth0:/y:z", "an IPv6 address needs brackets: [fe80::1%eth0]:/y:z"},
		{"a b:y", `character " "`},
		{"a;id:y", `character ";"`},
		{"$(id):y", "character"},
		{"m`e@host:y", "character"},
		{"host:a\x00b", "NUL"},
		{"x -oFoo@host:y", "space followed by '-'"},
		{"x\u00a0-oFoo@host:y", "space followed by '-'"},
		{"sftp://x%20-oFoo@host/y", "space followed by '-'"},
		{"x\\@host:y", "ends with a backslash"},
		{"sftp://x%5C@host/y", "ends with a backslash"},
		{"x\u0085y@host:y", "character"},
		{"me@ho\u0085st:y", "character"},
		{"me@ho\u00a0st:y", "character"},
		{"sftp://", "no host"},
		{"scp://", "no host"},
		{"http://host/x", "http:// addresses are not supported"},
		{"SSH://host/x", "ssh:// addresses are not supported"},
		{"file:///x", "file:// addresses are not supported"},
		{"sftp:///x", "no host"},
		{"sftp://-x/y", "starts with '-'"},
		{"sftp://-x@h/y", "starts with '-'"},
		{"sftp://host:0/", "port"},
		{"sftp://host:65536/", "port"},
		{"sftp://host:+22/", "port"},
		{"sftp://host/%zz", "escape"},
		{"sftp://host/%00", "NUL"},
		{"sftp://me;x=y@host/", "parameters"},
		{"sftp://h%3Bid/", "invalid"},
	} {
		got, _, err := ParseTarget(c.in)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("ParseTarget(%q) = %+v, %v; want an error that says %q", c.in, got, err,
				c.says)
		}
	}
	_, _, err := ParseTarget("sftp://me:hunter2@host/x")
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("an address with a password gave %v", err)
	}
}

func TestParseHost(t *testing.T) {
	for in, want := range map[string]Target{
		"host":              {Host: "host"},
		"me@host":           {User: "me", Host: "host"},
		"me@host:dir":       {User: "me", Host: "host", Path: "dir"},
		"::1":               {Host: "::1"},
		"me@2001:db8::1":    {User: "me", Host: "2001:db8::1"},
		"[::1]":             {Host: "::1"},
		"[::1]:x":           {Host: "::1", Path: "x"},
		"sftp://me@host:9/": {User: "me", Host: "host", Port: 9, Path: "/"},
	} {
		got, err := ParseHost(in)
		if err != nil || got != want {
			t.Errorf("ParseHost(%q) = %+v, %v; want %+v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "-v", "me@", "a/b", "a b"} {
		if got, err := ParseHost(in); err == nil {
			t.Errorf("ParseHost(%q) = %+v", in, got)
		}
	}
}

func FuzzParseTarget(f *testing.F) {
	for _, s := range []string{"host:path", "me@[::1]:/x", "sftp://me@h:22/~/x", "a/b:c", "C:x",
		"sftp://%2d@h/", "scp://h:22/~u/x", "scp://h:22//~/x", "scp://h:22/~/~", "[:]:",
		"sftp://ftp://x", "sftp://a%3Ab@h/x", "a:/:b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, remote, err := ParseTarget(s)
		if err != nil || !remote {
			if got != (Target{}) {
				t.Fatalf("ParseTarget(%q) = %+v, %v, %v", s, got, remote, err)
			}
			return
		}
		if strings.HasPrefix(got.Host, "-") || strings.HasPrefix(got.User, "-") || got.Host == "" {
			t.Fatalf("ParseTarget(%q) let %+v through", s, got)
		}
		if err := got.check(); err != nil {
			t.Fatalf("ParseTarget(%q) = %+v: %v", s, got, err)
		}
		// What is printed means the same. A '%' of a host has a meaning of its own in a URL.
		if !strings.Contains(got.Host, "%") {
			printed := got.String()
			again, remote, err := ParseTarget(printed)
			if got.Path == "" && !remote {
				again, err = ParseHost(printed)
			}
			if err != nil || again != got {
				t.Fatalf("%q printed as %q, which reads as %+v, %v", s, printed, again, err)
			}
		}
	})
}
