package filecopy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/wire"
)

// A helped is a host whose own server takes a tree's small files in several steps each. Once there
// are many, usftp's server is started beside it ([pool.Host.Helper]), and takes and sends several
// in one request. That server may run as another user, in another namespace or with another umask,
// so it is proved first; the host's own server does the rest as ever.
type helped struct {
	found  atomic.Int64                 // small files found
	begun  atomic.Pointer[usftp.Client] // the helper, until a file proves it
	client atomic.Pointer[usftp.Client] // nil until it is proved, and once it has failed
	start  string                       // where relative paths begin
	doubts atomic.Int64                 // files in a row that it did not take or send
	heard  atomic.Pointer[time.Time]    // when it last answered
}

// helpers are the helped hosts of a tree's source and target.
type helpers struct{ source, target helped }

const (
	// manySmall is how many small files a tree must have for a helper: starting and proving one
	// takes some ten round trips, and the host some milliseconds of processor time.
	manySmall = 512

	// fewTogether is the same for a target directory, whose check takes two requests and a round trip.
	fewTogether = 4

	// mostDoubts is how many files in a row the helper may refuse.
	mostDoubts = 3
)

// HelperPatience is how long the helper may take for anything before it is given up. It is a
// variable for tests.
var HelperPatience = 10 * time.Second

// HelperBegun is called when a helper has started, or could not. Tests set it.
var HelperBegun = func() {}

// errOtherFiles reports that a helper is useless.
var errOtherFiles = errors.New("usftp on the host does not have the same files, or does not make " +
	"them in the same way")

// A seenDir records whether the helper sees the same directory.
type seenDir struct {
	found atomic.Int64 // small files in it
	same  endpoint.Once[bool]
}

// helper returns the client of a proved helper that takes, or sends, the next small file; nil if
// there is none. The file at manySmall starts it. A helper that is to write proves itself in dir,
// which is "" for a reading one: each file's attrs are compared.
func (h *helped) helper(c *Copy, s *session, dir string) *usftp.Client {
	own := private.OfClient(s.client)
	if _, ours := s.client.HasExtension(wire.ExtBeneath); s.host.Helper == nil || ours ||
		own.OnWindows() {
		return nil // our own server that takes no files whole is not to
	}
	if h.found.Add(1) == manySmall {
		ctx, start := c.Ctx, s.host.Helper
		c.Work.Go(func() { h.begin(ctx, start) })
	}
	if h.begun.Load() != nil {
		if begun := h.begun.Swap(nil); begun != nil {
			h.try(c, s, begun, dir)
		}
	}
	client := h.client.Load()
	if client == nil || pool.Lost(client) {
		return nil
	}
	return client
}

// begin starts the helper.
func (h *helped) begin(ctx context.Context, start func(context.Context) *usftp.Client) {
	defer HelperBegun()
	client := start(ctx)
	if client != nil && private.OfClient(client).PutsFiles() &&
		private.OfClient(client).GetsFiles() {
		h.begun.Store(client)
	}
}

// try proves the helper in the directory of a file that is about to be copied: the directory gets
// its times after that, and the run does not end before. It is not inlined, to keep the stacks of
// thousands of files small.
//
//go:noinline
func (h *helped) try(c *Copy, s *session, client *usftp.Client, dir string) {
	ctx, cancel := context.WithTimeout(c.Ctx, HelperPatience)
	defer cancel()
	var err error
	h.start, err = s.client.WithContext(ctx).RealPath(".")
	if err == nil && dir != "" {
		root, _ := c.Paths()
		above := strings.TrimSuffix(path.Join(h.at(root), "x"), "x") // clean, as names below it are
		client, _ = private.OfClient(client).Beneath(above)
		err = h.prove(c, s.client, client.WithContext(ctx), dir)
	}
	if err == nil {
		h.client.Store(client)
	}
}

// at returns a path for the helper, which may start in another directory.
func (h *helped) at(name string) string {
	if path.IsAbs(name) {
		return name
	}
	return path.Join(h.start, name)
}

// took records the helper's answer: success, or err.
func (h *helped) took(err error) {
	now := time.Now()
	h.heard.Store(&now)
	switch {
	case err == nil:
		h.doubts.Store(0)
	case h.doubts.Add(1) >= mostDoubts:
		h.client.Store(nil)
	}
}

// patient returns a context that ends once the helper has answered nothing for HelperPatience: on a
// slow link, data sent earlier comes first.
func (h *helped) patient(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	began := time.Now()
	var check func()
	check = func() {
		quiet := time.Since(began)
		if heard := h.heard.Load(); heard != nil {
			quiet = min(quiet, time.Since(*heard))
		}
		switch {
		case ctx.Err() != nil:
		case quiet < HelperPatience:
			time.AfterFunc(HelperPatience-quiet, check)
		default:
			cancel()
		}
	}
	timer := time.AfterFunc(HelperPatience, check)
	return ctx, func() { timer.Stop(); cancel() }
}

// gaveUp ends a helper that does not answer. Without its session it stops before its next step: a
// rename in progress may still be done.
func (h *helped) gaveUp() {
	if client := h.client.Swap(nil); client != nil {
		client.Close()
	}
}

// alike reports whether two servers describe the same file.
func alike(ours, theirs *usftp.FileStat) bool {
	return ours.Mtime == theirs.Mtime && ours.Mode == theirs.Mode && ours.HasMode() &&
		ours.UID == theirs.UID && ours.GID == theirs.GID && ours.HasOwner() == theirs.HasOwner()
}

// puts returns the client that puts a small file in one request, nil if none does, and the helped
// host if the client is a helper's.
func puts(c *Copy, o onHost) (*usftp.Client, *helped) {
	if client := o.client(); private.OfClient(client).PutsFiles() {
		return client, nil
	}
	if c.Budget.NoHelper {
		return nil, nil
	}
	h, dir := &c.Budget.helpers.target, Above(c.Dst, o.name)
	client, seen := h.helper(c, c.to, dir), &c.Findings().seen
	if client == nil || seen.found.Add(1) < fewTogether {
		return nil, nil
	}
	if !seen.same.Do(func() bool { return h.sees(c, client, dir) }) {
		return nil, nil
	}
	return client, h
}

// prove checks that both servers have the same directory, and that the helper makes files with the
// owner, group and mode that the host's own server gives them. Both create a file with a name that
// nobody can guess; the helper's replaces the other.
func (h *helped) prove(c *Copy, main, helper *usftp.Client, dir string) error {
	const contents, perm = "usftp", 0o777 // all bits that a umask can clear
	late, end := c.late()                 // whatever happens, the file is removed
	defer end()
	main = main.WithContext(late)
	name := path.Join(dir, c.Token.Name("usftp"))
	f, err := main.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	defer main.Remove(name)
	looked, closing := f.Async().Stat(), f.Async().Close()
	ours, err := looked.Wait()
	if _, closeErr := closing.Wait(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	theirs, err := helper.Lstat(h.at(name))
	if err != nil {
		return err
	}
	if stat, ok := theirs.Sys().(*usftp.FileStat); !ok || !alike(ours, stat) || stat.Size != 0 {
		return errOtherFiles
	}
	temporary := c.Token.Name("usftp2")
	if err := private.OfClient(helper).StartPut(h.at(name), temporary, []byte(contents), perm,
		usftp.NewAttrs{}, false)(); err != nil {
		if !endpoint.Refused(err) { // it may still do it
			helper.Close()
			c.Leaves()
		}
		return err
	}
	now, err := main.Lstat(name)
	if err != nil {
		return err
	}
	if stat, ok := now.Sys().(*usftp.FileStat); !ok || stat.Size != uint64(len(contents)) ||
		stat.Mode != ours.Mode || stat.UID != ours.UID || stat.GID != ours.GID {
		helper.Remove(h.at(name)) // it lies elsewhere
		return errOtherFiles
	}
	return nil
}

// sees reports whether the helper has the same target directory. A directory below a proved one may
// still be mounted for one of the two servers only.
func (h *helped) sees(c *Copy, helper *usftp.Client, dir string) bool {
	ctx, cancel := context.WithTimeout(c.Ctx, HelperPatience)
	defer cancel()
	var ours, theirs [3]*usftp.FileStat
	for i := range ours {
		look := c.to.client.WithContext(ctx).Async().Lstat(dir)
		seen, theirErr := helper.WithContext(ctx).Async().Lstat(h.at(dir)).Wait()
		info, err := look.Wait()
		if err != nil || theirErr != nil {
			if ctx.Err() != nil && c.Ctx.Err() == nil {
				h.gaveUp()
			}
			return false
		}
		ours[i], theirs[i] = info.Sys().(*usftp.FileStat), seen.Sys().(*usftp.FileStat)
		if alike(ours[i], theirs[i]) {
			return true
		}
	}
	// The host's own server may answer long after the helper, and create files until then.
	between := *theirs[1]
	if between.Mtime >= ours[0].Mtime && between.Mtime <= ours[2].Mtime {
		between.Mtime = ours[2].Mtime
	}
	return alike(ours[2], &between)
}

// A helpedOpener reads small files through a helper.
type helpedOpener struct {
	endpoint.Opener
	helped *helped
	client *usftp.Client
}

// getter returns the opener that reads a small file.
func getter(in *input) endpoint.Opener {
	c := in.copy
	if in.known.Size > wire.LargestFile || private.OfClient(c.from.client).GetsFiles() {
		return in.opener
	}
	h := &c.Budget.helpers.source
	client := h.helper(c, c.from, "")
	if client == nil {
		return in.opener
	}
	return helpedOpener{in.opener, h, client}
}

// ReadWhole implements [endpoint.Opener]. The helper's file counts only if it is the listed one.
func (o helpedOpener) ReadWhole(ctx context.Context, name string, how endpoint.Opening,
	info *endpoint.Info, to endpoint.Memory) error {
	h, size := o.helped, int(info.Size)
	patient, cancel := h.patient(ctx)
	defer cancel()
	to.Opened()
	to.Closing() // the helper has handles of its own
	stat, err := private.OfClient(o.client.WithContext(patient)).GetFile(h.at(name), size,
		func() []byte { return to.Lend(size) })
	if err == nil {
		now := endpoint.OfStat(stat)
		if now.Owner.Known && now.HasTimes && now.HasMode && now.Mode == info.Mode &&
			now.Size == info.Size && now.Mtime.Equal(info.Mtime) && now.Owner == info.Owner {
			h.took(nil)
			*info = now
			return nil
		}
		err = errOtherFiles
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case endpoint.Refused(err) || errors.Is(err, private.ErrOtherSize) ||
		errors.Is(err, errOtherFiles):
		h.took(err)
	default:
		h.gaveUp()
	}
	return o.Opener.ReadWhole(ctx, name, how, info, to)
}

// notTaken returns the error of an attempt whose file the helper did not put: the next one takes
// the steps.
func (h *helped) notTaken(c *Copy, temporary string, err error) error {
	switch {
	case err == nil:
		h.took(nil)
		return nil
	case c.Ctx.Err() != nil:
		return err
	case endpoint.Refused(err):
		h.took(err)
	default:
		h.gaveUp()
		c.known.addStray(temporary) // it may remain
	}
	return fmt.Errorf("%w: %w", errNotWhole, err)
}
