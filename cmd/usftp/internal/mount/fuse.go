//go:build linux || darwin

package mount

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/cmd/usftp/internal/connect"
	"github.com/usftp/usftp/cmd/usftp/internal/opt"
	"github.com/usftp/usftp/cmd/usftp/internal/sftpfs"
	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/pool"
)

func run(ctx context.Context, a *ui.App, flags *flags, from connect.Place, at string) error {
	if err := checkMountpoint(at); err != nil {
		return err
	}
	d := daemonOf()
	if d == nil && holdsAny(at) {
		a.Console.Say(at + " is not empty: what is in it cannot be seen until it is unmounted")
	}
	if d == nil && !flags.foreground {
		return background(a)
	}
	config := flags.Config(a, &flags.report)
	config.Client = append(config.Client, usftp.WithStallTimeout(stallTimeout(flags.timeout)))
	config.Streams = cmp.Or(config.Streams, streams)
	login, err := pool.Connect(ctx, from.Target, config)
	if err != nil {
		return err
	}
	defer login.Close()
	logger := config.Dial.Logger
	if d != nil {
		if logger, err = d.logger(a, flags); err != nil {
			return err
		}
	}
	options := fsOptions(flags, from, logger)
	fs, err := sftpfs.New(ctx, login.Host(), options)
	if err != nil {
		return fmt.Errorf("cannot mount %s: %w", from.Typed, err)
	}
	server, err := newServer(fs, at, mountOptions(flags, from, logger))
	if err != nil {
		fs.Close()
		return fmt.Errorf("cannot mount at %s: %w", at, err)
	}
	debug.SetMemoryLimit(memory)
	served := make(chan struct{})
	go func() {
		defer close(served)
		server.Serve()
	}()
	if err := waitMount(server); err != nil {
		server.Unmount()
		fs.Close()
		return fmt.Errorf("cannot mount at %s: %w", at, err)
	}
	a.Signals.Set(flags.timeout+ui.CleanupTime, nil)
	if d != nil {
		if err := d.ready(); err != nil {
			logger.Error("cannot go to the background", "error", err)
		}
	}
	select {
	case <-served:
	case <-ctx.Done():
		if err := unmount(at, true); err != nil {
			logger.Error("cannot unmount", "error", err)
		}
		select {
		case <-served:
		case <-time.After(lazyPatience): // programs have files open
		}
	}
	err = fs.Close()
	if ctx.Err() != nil && err == nil {
		return nil // as requested
	}
	return err
}

// streams limits the sessions that may write one large file.
const streams = 3

// newServer mounts. If fusermount fails, the error is its message: it prints that to os.Stderr, and
// go-fuse knows only its exit status.
func newServer(fs fuse.RawFileSystem, at string, options *fuse.MountOptions) (*fuse.Server, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	stderr := os.Stderr
	os.Stderr = w
	server, err := fuse.NewServer(fs, at, options)
	os.Stderr = stderr
	w.Close()
	if err == nil {
		return server, nil
	}
	r.SetReadDeadline(time.Now().Add(time.Second)) // for a process that fusermount has left behind
	said, _ := io.ReadAll(r)
	_, line, found := strings.Cut(strings.TrimSpace(string(said)), "fusermount")
	if !found {
		return nil, errors.New(strings.TrimSpace(err.Error()))
	}
	line, _, _ = strings.Cut(line, "\n")
	return nil, errors.New("fusermount" + line)
}

// waitMount waits until the mount works. On Linux NewServer has waited: there go-fuse would open a
// file in the mount, and a process that is killed while it waits for its own answer never ends.
func waitMount(server *fuse.Server) error {
	if runtime.GOOS == "linux" {
		return nil
	}
	return server.WaitMount()
}

// memory is the limit that the program tries to keep, including buffers. With the program itself,
// which this does not count, that is less than 64 MiB.
const memory = 44 << 20

// lazyPatience is how long a mount that was told to end waits for programs to close their files.
const lazyPatience = 2 * time.Second

// stallTimeout returns when to give up a silent connection, so that it can be replaced before calls
// fail. The host is asked for a sign of life after a quarter of it.
func stallTimeout(timeout time.Duration) time.Duration { return min(timeout/2, 15*time.Second) }

// checkMountpoint returns why a directory cannot be a mount point, or nil.
func checkMountpoint(at string) error {
	info, err := os.Stat(at)
	if err == nil { // the kernel may still know the attributes of a mount whose program is gone
		var dir *os.File
		if dir, err = os.Open(at); err == nil {
			dir.Close()
		} else if !errors.Is(err, syscall.ENOTCONN) {
			err = nil
		}
	}
	switch {
	case errors.Is(err, syscall.ENOTCONN):
		return fmt.Errorf("%s has a mount whose program is gone: run `usftp umount %s` first", at,
			at)
	case err != nil:
		return fmt.Errorf("cannot mount at %s: %s", at, ui.ReasonOf(err))
	case !info.IsDir():
		return fmt.Errorf("cannot mount at %s: not a directory", at)
	}
	return nil
}

// holdsAny reports whether a directory has entries.
func holdsAny(dir string) bool {
	f, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer f.Close()
	names, _ := f.Readdirnames(1)
	return len(names) > 0
}

// fsOptions returns the file system's options.
func fsOptions(flags *flags, from connect.Place, logger *slog.Logger) sftpfs.Options {
	o := &flags.options
	return sftpfs.Options{
		Root: from.Path(), Timeout: flags.timeout, Cache: flags.cache, Buffer: buffer,
		ReadOnly: o.readOnly, MapUser: o.idmap == "user", MapIfKnown: o.mapsIfKnown(os.Geteuid()),
		UID: o.uid, GID: o.gid, Umask: o.umask,
		FollowSymlinks: o.follow, TransformSymlinks: o.transform,
		FreeSymlinks: o.free,
		HostName:     from.Target.UserHost(), Logger: logger, RescueDir: opt.StatePath("rescue"),
	}
}

// maxWrite limits the data that one call of the kernel may carry.
const maxWrite = 256 << 10

// mountOptions returns the kernel's options.
func mountOptions(flags *flags, from connect.Place, logger *slog.Logger) *fuse.MountOptions {
	o := &flags.options
	kernel := append([]string{"nosuid", "nodev"}, o.kernel...)
	if o.readOnly {
		kernel = append(kernel, "ro")
	}
	// If others may use the mount, the kernel checks owners and modes as the host reports them.
	if o.defaultPermissions || o.allowOther || os.Geteuid() == 0 {
		kernel = append(kernel, "default_permissions")
	}
	return &fuse.MountOptions{
		AllowOther: o.allowOther, Options: kernel, FsName: cmp.Or(o.fsName, from.Typed), Name: "usftp",
		MaxBackground: 64, MaxWrite: maxWrite, DisableXAttrs: true,
		// Data read comes from memory. go-fuse would try for each READ to pass it on through a pipe,
		// which takes five system calls before it finds that this works for files only.
		DisableSplice:     true,
		ExtraCapabilities: fuse.CAP_ATOMIC_O_TRUNC,
		Logger:            log.New(logWriter{logger}, "", 0),
	}
}

// logWriter logs go-fuse's messages, which only matter for debugging.
type logWriter struct{ to *slog.Logger }

func (w logWriter) Write(p []byte) (int, error) {
	w.to.Debug("fuse: " + string(p))
	return len(p), nil
}
