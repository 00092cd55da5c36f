//go:build !linux && !darwin

package mount

import (
	"context"
	"fmt"
	"runtime"

	"github.com/usftp/usftp/cmd/usftp/internal/connect"
	"github.com/usftp/usftp/internal/ui"
)

func run(context.Context, *ui.App, *flags, connect.Place, string) error { return errSystem() }

func unmount(string, bool) error { return errSystem() }

func errSystem() error {
	return fmt.Errorf("mount is for Linux and macOS; it is not supported on %s", runtime.GOOS)
}
