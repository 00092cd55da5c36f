package mount

import (
	"path/filepath"
	"strings"
)

// AsHelper returns the equivalent command line if the program is started by mount(8) as
// mount.usftp, as systemd and /etc/fstab do: mount.usftp SOURCE DIR [-sfnv] [-o OPTIONS].
func AsHelper(program string, args []string) []string {
	if base := filepath.Base(program); base != "mount.usftp" && base != "mount.fuse.usftp" {
		return args
	}
	meant := []string{"mount"}
	for i, arg := range args {
		letters, found := strings.CutPrefix(arg, "-")
		if !found || strings.Trim(letters, "sfnv") != "" || i > 0 && args[i-1] == "-o" {
			meant = append(meant, arg)
		} else if strings.Contains(letters, "f") {
			meant = append(meant, "--fake")
		}
	}
	return meant
}
