package server

import (
	"errors"
	"io/fs"
	"math/bits"
	"slices"
	"syscall"
	"time"

	"github.com/usftp/usftp/server/internal/lograte"
	"github.com/usftp/usftp/wire"
)

// classify returns the kind of event for an error, and who refused the request; ok is false for
// errors that are not refusals.
func classify(err error) (kind EventKind, by string, ok bool) {
	status, _ := errors.AsType[*StatusError](err)
	switch {
	case status == errReadOnly, status == errForbidden, status == errFolderHere,
		status == errRefusedName:
		return RequestDenied, "policy", true
	case status == ErrQuota, status == ErrTransferQuota:
		return RequestDenied, "quota", true
	case status == errHandles, status == ErrTooLarge:
		return RequestDenied, "limit", true
	case status == errBadHandle, codeOf(err) == wire.BadMessage:
		return BadRequest, "", true
	case codeOf(err) == wire.PermissionDenied:
		return RequestDenied, "backend", true
	}
	return "", "", false
}

// Denier returns the denier of a request that failed with err: "policy", "quota", "limit" or
// "backend", as in [Event]; or "" if nothing denied it.
func Denier(err error) string {
	_, by, _ := classify(err)
	return by
}

// refused reports a request that was answered with err, if that is a refusal. A fault of the machine
// is logged: whoever runs it would hear of it from clients only. That of a write, or of a close, is
// in the line about the end of the file.
func (s *session) refused(r *request, err error) {
	if kind, by, ok := classify(err); ok {
		s.reports.Report(Event{Kind: kind, Request: r.op.String(), By: by, Path: r.about(),
			To: r.path2, Err: err})
	} else if isFault(err) && r.op != opWrite && r.op != opClose {
		s.faults.Warn("request failed", "request", r.op.String(), "path", plain(r.about()),
			"error", err)
	}
}

// faultLines limits the lines of a session about faults: each of its requests may meet the same one.
var faultLines = lograte.Rate{Burst: 5, PerSecond: 1.0 / 60}

// isFault reports whether an error shows that the machine, or a disk of it, has a problem.
func isFault(err error) bool {
	errno, ok := errors.AsType[syscall.Errno](err)
	return ok && slices.Contains([]syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM,
		syscall.EIO, syscall.ENOSPC, syscall.EDQUOT, syscall.ESTALE, syscall.ENOTCONN,
		syscall.ETIMEDOUT, syscall.ENOLCK}, errno)
}

// about returns the path that a request concerns.
func (r *request) about() string {
	if r.path == "" && r.handle != nil {
		return r.handle.path
	}
	return r.path
}

// changed reports a change to the tree that was made, or may have been, and returns err.
func (v *View) changed(err error, o operation, name, to string, attrs *wire.Attrs) error {
	if err == nil || errors.Is(err, ErrUnsure) {
		e := treeChanged(o, name, to, attrs)
		e.Err = err
		v.reports.Report(e)
	}
	return err
}

// set reports the attributes that a request has set, and returns err. After an error these are the
// ones that the file now has: a backend goes on after what it cannot set, and nobody may change a
// file unseen by asking for more than is possible. look describes the file.
func (v *View) set(err error, o operation, name string, attrs wire.Attrs,
	look func() (fs.FileInfo, error)) error {
	if err != nil {
		by := Denier(err)
		if v.reports == nil || by != "" && by != "backend" || bits.OnesCount32(attrs.Flags) < 2 {
			return err
		}
		info, lookErr := look()
		if lookErr != nil {
			return err
		}
		if attrs.Flags = inCommon(&attrs, info); attrs.Flags == 0 {
			return err
		}
	}
	v.reports.Report(treeChanged(o, name, "", &attrs))
	return err
}

// inCommon returns the flags of the attributes that a file has.
func inCommon(attrs *wire.Attrs, info fs.FileInfo) (flags uint32) {
	now := AttrsOf(info)
	for flag, same := range map[uint32]bool{
		wire.AttrSize:        now.Size == attrs.Size,
		wire.AttrUIDGID:      now.UID == attrs.UID && now.GID == attrs.GID,
		wire.AttrPermissions: (now.Permissions^attrs.Permissions)&0o7777 == 0,
		wire.AttrACModTime:   now.MTime == attrs.MTime,
	} {
		if same && now.Has(flag) && attrs.Has(flag) {
			flags |= flag
		}
	}
	return flags
}

func treeChanged(o operation, name, to string, attrs *wire.Attrs) Event {
	e := Event{Kind: TreeChanged, Request: o.String(), Path: name, To: to}
	if attrs != nil {
		set := *attrs // the receiver may keep it
		e.Attrs = &set
	}
	return e
}

// Reporting returns the view with a reporter, which gets an event for each change to the tree.
func (v *View) Reporting(r *Reporter) *View {
	reporting := *v
	reporting.reports = r
	return &reporting
}

// closed returns the event for the file's successful end. A file opened for writing and then only
// read was downloaded, unless it was changed in another way.
func (h *handle) closed() Event {
	e := Event{Kind: FileClosed, Path: h.path, Transfer: &h.moved, Took: time.Since(h.opened)}
	e.Read, e.Written = h.moved.Moved()
	e.Upload = e.Written > 0 || h.flags&writing != 0 &&
		(e.Read == 0 || h.resized.Load() || appears(h.file))
	return e
}
