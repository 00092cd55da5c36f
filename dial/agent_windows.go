package dial

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/windows"
)

// agentBusy is how long to wait before asking again when all of an agent's pipes are taken.
const agentBusy = 20 * time.Millisecond

// dialAgent connects to an agent's pipe, like Windows' own and Pageant's, or to a socket. The
// pipe's server may learn who we are, but not act as us, and a hanging one can be abandoned.
func dialAgent(ctx context.Context, path string) (io.ReadWriteCloser, error) {
	if !strings.HasPrefix(filepath.FromSlash(path), `\\`) { // ssh_config often has //./pipe/NAME
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	for {
		pipe, err := windows.CreateFile(name, windows.GENERIC_READ|windows.GENERIC_WRITE, 0, nil,
			windows.OPEN_EXISTING, windows.FILE_FLAG_OVERLAPPED|windows.SECURITY_SQOS_PRESENT|
				windows.SECURITY_IDENTIFICATION, 0)
		if err == nil {
			return os.NewFile(uintptr(pipe), path), nil
		}
		if err != windows.ERROR_PIPE_BUSY {
			return nil, &os.PathError{Op: "open", Path: path, Err: err}
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(agentBusy):
		}
	}
}
