package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/internal/private/pools"
)

// remoteOutput is a file on a host being written: created under a temporary name or opened in
// place, filled, sealed, and given its name.
type remoteOutput struct {
	location
	end     *remoteTarget
	session *session
	client  *usftp.Client // the session's, see [remoteTarget.view]
	file    *usftp.File
	striper *endpoint.Striper
	sealed  bool
	over    int64           // size of the old file that is written over in place; 0 if there is none
	given   *usftp.NewAttrs // what the file should have, to be looked at; nil for most
}

func (o *remoteOutput) close() {
	if o.striper != nil {
		o.striper.Stop()
	}
}

func (o *remoteOutput) create(c *fileCopy, in *input) error {
	return o.location.create(c, in.info())
}

func (o *remoteOutput) openFile(c *fileCopy, name string, flag int, perm fs.FileMode) (err error) {
	if o.file, err = o.client.OpenFile(name, flag, perm); err == nil {
		c.flags.seat.opened(false)
	}
	return err
}

func (o *remoteOutput) lstat(name string) (fs.FileInfo, error) {
	return private.OfClient(o.client).Look(name)
}

// linked reports whether a directory below the target cannot be reached without following a link,
// as far as the host tells.
func (o *remoteOutput) linked(dir *directory) bool {
	if _, ok := o.end.root.View(o.session.client, dir.rel); !ok || dir.parent == nil {
		return false
	}
	_, err := o.end.root.LookDir(dir.rel)
	return err != nil
}

// explain distinguishes a full or read-only file system from other reasons why a write failed.
func (o *remoteOutput) explain(err error) error {
	client, dir := o.client, path.Dir(o.name)
	switch {
	case isOfSource(err) || !endpoint.Refused(err):
		return err
	case errors.Is(err, fs.ErrNotExist):
		return endpoint.ExplainMissing(err, client, dir)
	case !errors.Is(err, usftp.ErrSSHFxFailure):
		return err
	}
	return endpoint.ExplainFailure(err, client, o.session.host.Name, dir)
}

// overwrite opens the target itself. Version 3 has no flag that stops OPEN from following links
// (draft-ietf-secsh-filexfer-02, section 6.3), so between LSTAT and OPEN another user on the host
// could still put a link in the file's place; the source cannot.
func (o *remoteOutput) overwrite(c *fileCopy, source *endpoint.Info, old fs.FileInfo, flag int,
	perm fs.FileMode) error {
	switch {
	case o.untold && c.options.Placement != PlaceDirect:
		err := o.openFile(c, o.name, flag|os.O_EXCL, perm)
		if badName(err) {
			c.detail = noSuchName
		} else if endpoint.Refused(err) {
			c.detail = "the host does not say what has this name: a directory's must end in /" +
				c.rules().inPlace
		} else if err == nil && c.flags.notRenamed { // nothing had the name
			o.quirks.NoRename.Store(true)
			o.reportNoRename(c)
		}
		return err
	case old == nil:
		return o.openFile(c, o.name, flag|os.O_TRUNC, perm)
	case !old.Mode().IsRegular():
		return o.openFile(c, o.name, flag, perm)
	}
	return o.openOver(c, source, old, perm)
}

// openOver opens an existing file to write over it. It does not empty the file, which may be the
// source: the host may be this machine, and a file can have several names. finalize truncates it to
// its new size. On hosts that take only whole files, it is emptied if it is certainly not the
// source.
func (o *remoteOutput) openOver(c *fileCopy, source *endpoint.Info, old fs.FileInfo,
	perm fs.FileMode) (err error) {
	other := c.attempts.once || isOther(source, old) // what can be read only once is no file
	if !other || !o.quirks.WholeFiles.Load() {
		if err = o.openFile(c, o.name, os.O_WRONLY|os.O_CREATE, perm); err == nil {
			o.over = sizeOf(old)
		}
		if !other || !endpoint.Refused(err) {
			return err
		}
	}
	truncErr := o.openFile(c, o.name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
	if err == nil {
		return truncErr
	}
	if truncErr != nil {
		return err
	}
	o.quirks.WholeFiles.Store(true)
	return nil
}

// isOther reports whether a file on a host is certainly not the source.
func isOther(source *endpoint.Info, target fs.FileInfo) bool {
	stat, ok := target.Sys().(*usftp.FileStat)
	if !ok {
		return false
	}
	return source.HasMode && !source.Mode.IsRegular() ||
		source.Size >= 0 && stat.HasSize() && uint64(source.Size) != stat.Size ||
		source.HasTimes && stat.HasTimes() && uint32(source.Mtime.Unix()) != stat.Mtime
}

// sizeOf returns the size of a file on a host, or the largest possible if the host did not tell.
func sizeOf(info fs.FileInfo) int64 {
	if stat, ok := info.Sys().(*usftp.FileStat); ok && stat.HasSize() && int64(stat.Size) >= 0 {
		return int64(stat.Size)
	}
	return math.MaxInt64
}

func (o *remoteOutput) discard(ctx context.Context, name string) error {
	return o.client.WithContext(ctx).Remove(name)
}

func (o *remoteOutput) restore(c *fileCopy, aside string) error {
	if _, old := localfs.OldNameOf(path.Base(aside)); !old || !o.left(c, aside) {
		return nil
	}
	client := o.client
	if err := endpoint.TakeBack(client, aside, o.name); err != nil {
		return err
	}
	if o.info == nil {
		if info, err := client.Lstat(o.name); err == nil {
			o.info = info
		} else if !endpoint.Refused(err) {
			return err
		}
	}
	return nil
}

// prove proves what an earlier run left by the host's hash or by reading back its end.
func (o *remoteOutput) prove(c *fileCopy, in *input, m *mark) (int64, error) {
	if m.RacyBytes > 0 && m != c.journal.left {
		return 0, errors.New("the source was being written to when the copy started")
	}
	if err := proveRemote(c, o.file, in, m); err != nil {
		return 0, err
	}
	_, err := o.file.Seek(m.Bytes, io.SeekStart)
	return m.Bytes, err
}

// proveRemote proves that what is in the file is the beginning of the source, and cuts off the
// rest. Where the host does not cut files, or only says so, the rest stays if all of it will be
// written over.
func proveRemote(c *fileCopy, f *usftp.File, in *input, m *mark) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	var why error
	over := false
	switch {
	case !info.Mode().IsRegular():
		return errors.New("it is no regular file")
	case info.Size() < m.Bytes:
		why = errors.New("it is shorter than it was")
	case info.Size() > m.Bytes:
		if err := f.Truncate(m.Bytes); err != nil {
			why = fmt.Errorf("it cannot be truncated to what is known to be good: %w", err)
			over = endpoint.Refused(err) && info.Size() <= in.info().Size
		}
	}
	if why != nil {
		kept, err := c.to.kept(f, in, min(info.Size(), in.info().Size))
		if kept > 0 && info.Size() <= in.info().Size {
			m.Bytes = kept
			return nil
		}
		if !over || err != nil {
			return cmp.Or(err, why)
		}
	}
	if same, known := c.to.begins(f, in, m.Bytes); known {
		if !same {
			return errDiffers
		}
		return nil
	}
	if m.Delta {
		return errUnprovable
	}
	length := int64(tail)
	switch {
	case m == c.journal.left:
		length = retriedTail
	case !m.Synced:
		length = unsyncedTail
	}
	off := max(0, m.Bytes-length)
	r := f.ReadRange(off, m.Bytes-off)
	defer r.Close()
	_, err = io.Copy(io.NewOffsetWriter(&comparer{at: in, size: m.Bytes}, off), r)
	return err
}

// fill copies the contents, over several handles where that helps.
func (o *remoteOutput) fill(c *fileCopy, in *input) error {
	if c.isSmall() {
		if o.over <= c.entry.info.Size { // otherwise it has to be truncated
			done, err := o.fillSmall(c, in)
			if done || err != nil {
				return o.explain(err)
			}
		}
		c.flags.large = true
		if err := in.ready(); err != nil {
			return err
		}
		c.sized(in)
	}
	c.hashing.start(c, in.reopen())
	n, err := o.send(c, in)
	c.result.Bytes = c.result.Resumed + n
	return o.explain(err)
}

func (o *remoteOutput) send(c *fileCopy, in *input) (int64, error) {
	if o.info != nil && o.temp != "" {
		if n, done, err := o.sendDelta(c, in); done || err != nil {
			return n, err
		}
	}
	f, resumed := o.file, c.result.Resumed
	defer c.watch(func() int64 { return resumed + f.Progress() })()
	if n, done, err := in.copyOn(f); done {
		return n, err
	}
	source := in.info()
	in.sends = true
	if local, ok := in.own().(*endpoint.LocalFile); ok {
		if s := findHoles(c, in, local); s != nil {
			return o.sendSparse(c, s)
		}
	}
	// until data lies beyond the old size, nothing shows whether handles see each other's data
	if !source.IsRegular() || o.over >= source.Size && o.over > 0 ||
		!o.session.worthStriping(c, source.Size-max(resumed, o.over), false) {
		return o.session.judge(c, f, func() (int64, int, error) {
			n, err := f.ReadFrom(in)
			return n, 1, err
		})
	}
	s := o.session.stripe(c, f,
		endpoint.Striping{Flag: os.O_WRONLY, From: resumed, Size: source.Size, Over: o.over})
	o.striper = s
	n, err := o.session.judge(c, f, func() (int64, int, error) {
		n, err := s.ReadFromAt(in)
		return n, 1 + s.Count(), err
	})
	c.result.Stripes = s.Joined()
	return n, err
}

// fillSmall reads, writes, finishes and closes a small file. done is false if the file is no longer
// as listed.
func (o *remoteOutput) fillSmall(c *fileCopy, in *input) (done bool, err error) {
	size, memory := c.entry.info.Size, c.tree.budget.memory
	memory.take(size)
	defer memory.give(size)
	wait, err := o.startSmall(c, in)
	if err != nil || wait == nil {
		return false, err
	}
	notSet, err := wait()
	c.freeHandle()
	if err == nil && notSet != nil {
		err = finalizing{o, c}.smallRefused(notSet, in.info())
	}
	if err == nil {
		err = finalizing{o, c}.proved()
	}
	if err != nil {
		return true, err
	}
	o.sealed = true
	c.result.Bytes = size
	return true, c.limiter.wait(int(size))
}

// smallRefused sets a small file's attributes by its path after they were refused. It is not
// inlined, to keep the stacks of thousands of files small.
//
//go:noinline
func (s finalizing) smallRefused(refusal error, source *endpoint.Info) error {
	if !endpoint.Refused(refusal) {
		if s.c.options.Preserve || s.c.options.Owners {
			return refusal
		}
		return nil
	}
	set, err := s.o.attrs(s.c, source)
	if err != nil {
		return err
	}
	f := endpoint.Finish{Set: set, Own: s.own()}
	return s.told(s.o.hostWriter().SetByPath(&f, refusal))
}

// startSmall reads a small file and starts writing it. It frees the memory for that before it
// returns, since the client holds what is in flight. wait is nil if the file is no longer as
// listed.
func (o *remoteOutput) startSmall(c *fileCopy, in *input) (wait func() (notSet, err error),
	err error) {
	if same, err := in.load(); err != nil || !same {
		return nil, err
	}
	defer in.small.release()
	set, err := o.attrs(c, in.info())
	if err != nil {
		return nil, err
	}
	finalizing{o, c}.looks(set)
	c.hashing.small(c, in.small.data)
	return private.OfFile(o.file).StartWriteClose(in.small.data, set), nil
}

// finalize finishes the file, unless fillSmall has done so; see [finalizing.run].
func (o *remoteOutput) finalize(c *fileCopy, in *input) error {
	if o.sealed {
		return nil
	}
	return finalizing{o, c}.run(in.info())
}

// finalizing is what happens to a file on a host between its contents and its name.
type finalizing struct {
	o *remoteOutput
	c *fileCopy
}

// run finishes the file.
func (s finalizing) run(source *endpoint.Info) (err error) {
	o, c := s.o, s.c
	f := endpoint.Finish{Truncate: c.result.Bytes < o.over, Size: c.result.Bytes, Own: s.own(),
		Flush: c.options.Sync || c.options.Verify && o.session.syncs(c)}
	if f.Set, err = o.attrs(c, source); err != nil {
		return err
	}
	s.looks(f.Set)
	done, err := o.hostWriter().Finish(c.ctx, &f)
	if err = o.explain(err); err == nil {
		err = s.told(done)
	}
	if err == nil {
		err = s.proved()
	}
	return err
}

func (o *remoteOutput) writer() endpoint.Writer {
	if o.file == nil {
		return nil
	}
	return o.hostWriter()
}

func (o *remoteOutput) hostWriter() endpoint.HostWriter {
	return endpoint.HostWriter{File: o.file, Quirks: o.quirks, Striper: o.striper}
}

// own reports whether the file is new.
func (s finalizing) own() bool { return s.o.temp != "" || s.o.info == nil }

// told says which attributes the file did not get. Unless they were asked for, that is no error.
func (s finalizing) told(done endpoint.Finished) error {
	say := func(string) {} // nobody has asked for it
	if s.c.options.Preserve || s.o.info != nil {
		say = s.c.warn
	}
	s.c.options.tell(done.Unset, say)
	return s.attrsRefused(done.NotSet)
}

// kept is without the setuid and setgid bits unless owner and group stay.
func (o *remoteOutput) kept(c *fileCopy) fs.FileMode {
	mode := o.info.Mode()
	if mode&(fs.ModeSetuid|fs.ModeSetgid) == 0 {
		return mode
	}
	old, _ := o.info.Sys().(*usftp.FileStat)
	fresh := new(usftp.FileStat)
	if info, err := o.file.Stat(); err == nil {
		fresh = info.Sys().(*usftp.FileStat)
	}
	known := old != nil && old.HasOwner() && fresh.HasOwner()
	kept := mode
	if !known || old.UID != fresh.UID {
		kept &^= fs.ModeSetuid
	}
	if !known || old.GID != fresh.GID {
		kept &^= fs.ModeSetgid
	}
	if kept != mode {
		c.warn("the new file does not keep the old one's setuid and setgid bits, " +
			"since its owner or group differs")
	}
	return kept
}

// errPrivate reports that a file would stay readable for its owner alone.
var errPrivate = errors.New("the host does not change the permissions of a file")

// looks notes what a file is given, to look afterwards whether it has it, once for each host.
// OpenSSH's server is believed. Copies that nobody asked to have attributes need no look,
// unless they replace something that not everybody may read.
func (s finalizing) looks(set usftp.NewAttrs) {
	o := s.o
	if (s.c.options.Preserve || o.private) && set != (usftp.NewAttrs{}) &&
		!private.OfClient(o.client).WorksInOrder() && !o.quirks.Proved.Swap(true) {
		o.given = &set
	}
}

// proved looks at a finished file. It returns errPrivate if it was made before anybody knew that
// modes are not set, and can be copied again.
func (s finalizing) proved() error {
	if s.o.given != nil {
		s.look()
	}
	if s.o.private && s.o.quirks.NoModes.Load() && !s.c.attempts.once {
		return errPrivate
	}
	return nil
}

// attrsRefused returns err unless the attributes are optional and were merely refused.
func (s finalizing) attrsRefused(err error) error {
	c := s.c
	if err == nil || c.options.Preserve || c.options.Owners || !endpoint.Refused(err) {
		return err
	}
	if s.o.info != nil {
		c.warn("the new file cannot be given the permissions of the old one: " + err.Error())
	}
	return nil
}

// A commitState is how far the last step of a copy to a host has come. If a lost connection
// swallows its replies, the next attempt finds out what was done before it does any of it again.
type commitState struct {
	temporary string // complete, and a name that nobody else knows
	aside     string // the old file's name during the exchange; "" if it keeps its own
	size      int64
}

// commit gives the temporary file the target's name.
func (o *remoteOutput) commit(c *fileCopy, _ *input) error {
	if !o.atomic() {
		return nil
	}
	// count it once: a server that loses everything when asked gets no endless attempts
	if c.attempts.committing == nil && !c.attempts.arrived {
		c.attempts.arrived = true
		o.session.conn.Arrived() // whatever becomes of the name
	}
	if o.hidden { // CLOSE has done it
		return nil
	}
	if c.attempts.committing == nil {
		c.attempts.committing = &commitState{temporary: o.temp, size: c.result.Bytes}
	}
	err := c.attempts.committing.rename(c, o)
	if err == nil {
		if c.delta != nil {
			c.delta.leave()
		}
	} else if !endpoint.Refused(err) {
		c.journal.keep(c, false)
	}
	return err
}

// rename renames the temporary file, replacing an existing target.
func (p *commitState) rename(c *fileCopy, o *remoteOutput) error {
	ctx, cancel := lateContext(c.ctx, o.end.Host)
	defer cancel()
	client := o.client.WithContext(ctx)
	var err error
	switch {
	case o.link && !o.freed:
		err = private.OfClient(client).Move(p.temporary, o.name, true)
	case client.HasPosixRename() && !(o.untold && c.repeats()):
		err = client.PosixRename(p.temporary, o.name)
		if endpoint.Refused(err) && c.delta.close() { // Windows does not replace open files
			err = client.PosixRename(p.temporary, o.name)
		}
	case (o.info == nil || o.freed) && p.aside == "":
		err = client.Rename(p.temporary, o.name)
	default:
		c.delta.close()
		err = p.replace(c, o, client)
	}
	if err == nil {
		c.attempts.committing = nil
		return nil
	}
	if badName(err) && p.aside == "" {
		if _, lookErr := client.Lstat(o.name); badName(lookErr) && p.drop(c, client) {
			c.attempts.committing, c.detail = nil, noSuchName
			return lookErr // which names the target alone
		}
	}
	c.result.LeftBehind = p.temporary
	c.detail = "all of the data is in " + c.shown(p.temporary)
	if !endpoint.Refused(err) {
		c.detail += ", or has its name already"
	}
	if p.aside != "" {
		c.detail += "; the file that it replaces may be " + c.shown(p.aside)
	}
	if endpoint.Refused(err) {
		if p.aside == "" {
			c.attempts.committing = nil
		}
		if c.entry == nil || !o.linked(c.entry.dir) {
			free := o.info == nil && isFree(client, o.name) || p.refused(c, o, client)
			o.noteRenameRefused(c, err, free, o.untold)
		}
		if (c.flags.notRenamed || o.quirks.NoRename.Load()) && !o.tries(c) &&
			p.aside == "" && p.forgone(c, o) {
			c.result.LeftBehind, c.detail = "", ""
			c.journal.noteBefore(c, p.temporary) // there is nothing to continue
			return fmt.Errorf("%w: %w", errNotRenamed, err)
		}
		c.detail += c.rules().inPlace
		if _, lookErr := client.Lstat(p.temporary); errors.Is(lookErr, fs.ErrNotExist) {
			c.result.LeftBehind = ""
			c.detail = fmt.Sprintf("all of the data was in %s, which is gone: check the file that has the target's name", c.shown(p.temporary))
		}
	}
	return err
}

// refused reports whether the host denies to rename the temporary file to a free name, too, after
// it has refused to replace an old file: then it renames nothing. A failure without a reason may be
// that of a full host, where the old file keeps its contents. The temporary file may have got that
// name.
func (p *commitState) refused(c *fileCopy, o *remoteOutput, client *usftp.Client) bool {
	if o.info == nil || o.link || p.aside != "" || c.options.Placement == PlaceAtomic {
		return false
	}
	free := path.Join(path.Dir(o.name), c.token.Name(path.Base(o.name)))
	err := client.Rename(p.temporary, free)
	if err == nil && client.Rename(free, p.temporary) != nil {
		p.temporary, o.temp, c.attempts.made = free, free, free
		c.result.LeftBehind, c.detail = free, "all of the data is in "+c.shown(free)
	}
	return nameRefused(err) || endpoint.Refused(err) && errors.Is(err, errors.ErrUnsupported)
}

// drop removes the temporary file, and reports whether the target can be written instead. A host
// that lets nobody rename may let nobody remove either.
func (p *commitState) drop(c *fileCopy, client *usftp.Client) bool {
	err := client.Remove(p.temporary)
	switch {
	case err == nil:
		return true
	case errors.Is(err, fs.ErrNotExist) || !endpoint.Refused(err): // who knows where it is
		return false
	}
	c.warn("the host does not remove files either: " + c.shown(p.temporary) + " is left behind")
	c.attempts.addStray(p.temporary)
	return true
}

// forgone reports whether another attempt can do without the temporary file, or copy that: on the
// host, if what was sent could be read only once.
func (p *commitState) forgone(c *fileCopy, o *remoteOutput) bool {
	if !c.attempts.once {
		return p.drop(c, o.client)
	}
	if o.session.oneHandle() {
		return false
	}
	c.src, c.source, c.attempts.once = c.dst.asSource(), p.temporary, false
	c.attempts.stored = p.temporary
	// a stream has no attributes, and no name that the copy could get in a directory
	c.options.Attributes, c.options.NoTargetDirectory = Attributes{}, true
	return true
}

// dropStored removes the temporary file that was copied on the host, or says where it is.
func dropStored(c *fileCopy, err error) {
	stored := c.attempts.stored
	c.source = c.route.Source
	if err == nil {
		if err = c.dst.Remove(stored, false); err != nil {
			c.result.LeftBehind = stored
			c.warn("the temporary file " + c.shown(stored) + " could not be removed")
		}
	} else if _, lookErr := c.dst.Lstat(stored); !errors.Is(lookErr, fs.ErrNotExist) {
		c.result.LeftBehind = stored
		if c.detail != "" {
			c.detail += "; "
		}
		c.detail += "all of the data is in " + c.shown(stored)
	}
}

// errNotRenamed reports that the host does not rename files.
var errNotRenamed = errors.New("the host does not rename files")

// isFree reports whether nothing has a name, as far as the host tells.
func isFree(client *usftp.Client, name string) bool {
	_, err := client.Lstat(name)
	return errors.Is(err, fs.ErrNotExist) || private.Untold(err)
}

// replace stands in for posix-rename on servers without it: RENAME fails if the name exists
// (draft-ietf-secsh-filexfer-02, section 6.5), so the old file is moved aside until the new one is
// in place. It continues what an earlier attempt began.
func (p *commitState) replace(c *fileCopy, o *remoteOutput, client *usftp.Client) error {
	stepped := false
	if p.aside == "" {
		p.aside = path.Join(path.Dir(o.name), c.token.OldName(path.Base(o.name)))
	} else if _, err := client.Lstat(p.aside); err == nil {
		stepped = true
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !stepped {
		c.journal.noteAside(c, p)
		err := client.Rename(o.name, p.aside)
		if endpoint.Refused(err) {
			p.aside = ""
			c.journal.noteAside(c, p) // that it still has its name
		}
		if err != nil {
			return err
		}
	}
	if err := client.Rename(p.temporary, o.name); err != nil {
		if client.Rename(p.aside, o.name) == nil {
			p.aside = ""
		}
		return err
	}
	return p.removeAside(c, o, client)
}

// removeAside removes the replaced file.
func (p *commitState) removeAside(c *fileCopy, o *remoteOutput, client *usftp.Client) error {
	if p.aside == "" {
		return nil
	}
	err := client.Remove(p.aside)
	switch {
	case err == nil || errors.Is(err, fs.ErrNotExist):
		return nil
	case o.session.lost() && pools.OfConn(o.session.conn).Renews():
		return err // the next attempt will look at it again
	}
	c.warn(fmt.Sprintf("the file that was replaced could not be removed: it is %s", p.aside))
	return nil
}

// finishCommit finds out how far a commit came whose connection was lost, and completes it. It
// returns false if the copy must be done again.
//
// If the temporary name is gone, the rename was done, since nobody else knows that name; the target
// must then have the right size.
func (o *remoteOutput) finishCommit(c *fileCopy) (done bool, err error) {
	t, client := &c.attempts, o.client
	if t.made != "" && (t.committing == nil || t.committing.temporary != t.made) &&
		(c.journal.left == nil || c.journal.left.Temporary != t.made) {
		t.addStray(t.made)
		t.made = ""
	}
	p := t.committing
	if p == nil {
		return false, nil
	}
	left, err := client.Lstat(p.temporary)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		stat, err := client.Lstat(o.name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
		if err != nil || stat.Size() != p.size {
			return false, p.giveUp(c, o)
		}
		if err := p.removeAside(c, o, client); err != nil {
			return false, err
		}
		t.committing = nil
	case err != nil:
		return false, err
	case left.Size() != p.size:
		t.addStray(p.temporary)
		return false, p.giveUp(c, o)
	default:
		t.made = p.temporary
		err := p.rename(c, o)
		if endpoint.Refused(err) { // the old connection's request may have been executed only now
			return p.wasRenamed(c, o, err)
		}
		if err != nil {
			return false, err
		}
	}
	c.result.Bytes = p.size
	return true, nil
}

// giveUp ends a commit that cannot be completed, and gives the old file its name back.
func (p *commitState) giveUp(c *fileCopy, o *remoteOutput) error {
	if p.aside != "" {
		if err := endpoint.TakeBack(o.client, p.aside, o.name); err != nil {
			return err
		}
		info, err := o.client.Lstat(o.name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err == nil {
			o.info = info
		}
	}
	c.attempts.committing = nil
	return nil
}

// wasRenamed checks whether a rename was refused because it had already been done.
func (p *commitState) wasRenamed(c *fileCopy, o *remoteOutput, refusal error) (done bool, err error) {
	if _, err := o.client.Lstat(p.temporary); !errors.Is(err, fs.ErrNotExist) {
		return false, refusal
	}
	stat, err := o.client.Lstat(o.name)
	if err != nil || stat.Size() != p.size {
		return false, refusal
	}
	c.result, c.detail = Result{Target: o.name, Bytes: p.size}, ""
	return true, nil
}
