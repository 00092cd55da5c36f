package complete

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/usftp/usftp/cmd/usftp/internal/connect"
)

// ForgottenColon returns a hint that a target was probably meant to be on a host, or "". That is so
// if it has no colon and does not exist here, but has an @ or the name of a host that ssh knows.
// For config see hosts.
func ForgottenColon(target connect.Place, config string) string {
	name := target.Typed
	if target.Remote || target.Stream || strings.ContainsAny(name, `/\`) {
		return ""
	}
	if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if !strings.Contains(name, "@") && !slices.ContainsFunc(hosts(config), func(known string) bool {
		host, _ := cutPort(known)
		return host == name
	}) {
		return ""
	}
	return fmt.Sprintf("%s has no colon, so it is a new local path: a place on a host is %[1]s:, "+
		"and ./%[1]s is certainly local", name)
}
