package mount

import (
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/internal/ui"
)

func TestAsHelper(t *testing.T) {
	typed := []string{"host:dir", "/mnt/dir", "-s", "-nv", "-o", "ro,uid=1"}
	meant := []string{"mount", "host:dir", "/mnt/dir", "-o", "ro,uid=1"}
	for _, program := range []string{"/sbin/mount.usftp", "/sbin/mount.fuse.usftp"} {
		if got := AsHelper(program, typed); !slices.Equal(got, meant) {
			t.Errorf("%s: %q", program, got)
		}
	}
	if got := AsHelper("/usr/bin/usftp", typed); !slices.Equal(got, typed) {
		t.Errorf("%q", got)
	}
}

// With -f of mount(8), a mount is checked and not made: the host need not exist.
func TestFakeMount(t *testing.T) {
	for options, fine := range map[string]bool{"ro": true, "ro,nonsense": false} {
		typed := []string{"host.invalid:dir", t.TempDir(), "-fv", "-o", options}
		cmd := Command(ui.NewApp("usftp"))
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs(AsHelper("/sbin/mount.usftp", typed)[1:])
		if err := cmd.Execute(); (err == nil) != fine {
			t.Errorf("-o %s: %v", options, err)
		}
	}
}

// Options are ours, ssh_config's, or refused with a reason.
func TestOptions(t *testing.T) {
	var o options
	ssh, err := o.parse([]string{"ro,idmap=user,umask=022", "Ciphers=a,b",
		"reconnect,Compression=no,x-systemd.automount,_netdev",
		"IdentityFile=/a,b,allow_other,MACs=c,d,e,uid=7", "identityfile=f,port=8,sftp_server=sudo /x"})
	if want := []string{"Ciphers=a,b", "Compression=no", "IdentityFile=/a,b", "MACs=c,d,e",
		"identityfile=f"}; err != nil || !slices.Equal(ssh, want) {
		t.Errorf("%q, %v", ssh, err)
	}
	if !o.readOnly || o.idmap != "user" || *o.umask != 0o022 || !o.allowOther || *o.uid != 7 ||
		o.port != "8" || o.server != "sudo /x" {
		t.Errorf("%+v", o)
	}
	if _, err := o.parse([]string{"IdentityFile=a,ro,nonsense"}); err == nil {
		t.Error("nonsense is taken")
	}
	const noPort = `-o port: "ssh" is not a valid number`
	if _, err := o.parse([]string{"port=ssh"}); err == nil || err.Error() != noPort {
		t.Errorf("a port by name: %v", err)
	}
	for option := range refused {
		if _, err := o.parse([]string{option}); err == nil {
			t.Errorf("%s is taken", option)
		}
	}
}

// mount(8) passes on what a line of /etc/fstab says to it and to the kernel.
func TestOptionsOfFstab(t *testing.T) {
	var o options
	ssh, err := o.parse([]string{"rw,noexec,nosuid,nodev,user,IdentityFile=/a,users",
		"rw,sync,dirsync,lazytime,relatime,mand,silent,owner,group,nofail,_netdev"})
	if err != nil || !slices.Equal(ssh, []string{"IdentityFile=/a"}) {
		t.Errorf("%q, %v", ssh, err)
	}
	if want := []string{"noexec", "sync", "dirsync"}; !slices.Equal(o.kernel, want) {
		t.Errorf("the kernel is told %q", o.kernel)
	}
}

// A person's mount shows the host user's files as theirs, unless owners were asked for; root's
// shows the owners that the host has.
func TestWhoseFiles(t *testing.T) {
	for _, test := range []struct {
		option        string
		user          int
		known, always bool
	}{{"ro", 1000, true, false}, {"ro", 0, false, false}, {"idmap=none", 1000, false, false},
		{"idmap=user", 1000, false, true}, {"uid=7", 1000, false, false},
		{"gid=7", 1000, false, false}} {
		var o options
		if _, err := o.parse([]string{test.option}); err != nil {
			t.Fatal(err)
		}
		if got := o.mapsIfKnown(test.user); got != test.known ||
			(o.idmap == "user") != test.always {
			t.Errorf("-o %s as %d: %t, %q", test.option, test.user, got, o.idmap)
		}
	}
}

// Each option that sshfs lists is taken, or refused with a reason.
func TestOptionsOfSSHFS(t *testing.T) {
	testenv.Program(t, "sshfs")
	help, err := exec.Command("sshfs", "--help").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, help)
	}
	values := strings.NewReplacer("=BOOL", "=yes", "=LIST", "=rename", "=TYPE", "=user", "=M", "=022",
		"=PORT", "=22", "=N", "=1", "=T", "=1")
	found := 0
	for line := range strings.Lines(string(help)) {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "-o" || strings.HasPrefix(words[1], "opt,") ||
			strings.HasPrefix(words[1], "SSHOPT") {
			continue
		}
		option := words[1]
		found++
		names := []string{option}
		if rest, negated := strings.CutPrefix(option, "[no]"); negated {
			names = []string{rest, "no" + rest}
		}
		if before, rest, several := strings.Cut(option, "{stat,link,dir}"); several {
			names = []string{before + "stat" + rest, before + "link" + rest, before + "dir" + rest}
		}
		for _, name := range names {
			var o options
			if _, err := o.parse([]string{values.Replace(name)}); errors.Is(err, errUnknown) ||
				err != nil && !strings.Contains(err.Error(), "is not supported: ") {
				t.Errorf("-o %s: %v", name, err)
			}
		}
	}
	if found < 40 {
		t.Errorf("sshfs lists %d options:\n%s", found, help)
	}
}
