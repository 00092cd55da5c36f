package mount

import (
	"slices"
	"testing"
)

func TestAsHelper(t *testing.T) {
	typed := []string{"host:dir", "/mnt/dir", "-s", "-nv", "-o", "ro,uid=1"}
	meant := []string{"mount", "host:dir", "/mnt/dir", "-o", "ro,uid=1"}
	if got := AsHelper("/sbin/mount.usftp", typed); !slices.Equal(got, meant) {
		t.Errorf("%q", got)
	}
	if got := AsHelper("/usr/bin/usftp", typed); !slices.Equal(got, typed) {
		t.Errorf("%q", got)
	}
}

// Options are ours, ssh_config's, or refused with a reason.
func TestOptions(t *testing.T) {
	var o options
	ssh, err := o.parse([]string{"ro,idmap=user,umask=022", "Ciphers=a,b",
		"reconnect,Compression=no,x-systemd.automount,_netdev"})
	if err != nil || !slices.Equal(ssh, []string{"Ciphers=a,b", "Compression=no"}) {
		t.Errorf("%q, %v", ssh, err)
	}
	if !o.readOnly || !o.mapUser || *o.umask != 0o022 {
		t.Errorf("%+v", o)
	}
	for option := range refused {
		if _, err := o.parse([]string{option}); err == nil {
			t.Errorf("%s is taken", option)
		}
	}
}
