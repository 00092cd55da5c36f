package server

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/usftp/usftp/server/internal/lograte"
	"github.com/usftp/usftp/wire"
)

// refusals writes a line for each request that was not allowed or not understood. What a client
// asks for in vain is its own business, but for the log to tell who tried what, and no client may
// fill the disk with lines about itself.
type refusals struct {
	log  *slog.Logger
	rate lograte.Limit
}

// A refusal is what the log says of a request: that it was denied, and by what, or that it was bad.
type refusal struct{ message, by string }

// refusalOf tells what an error says about a request, if it says that the request was refused.
func refusalOf(err error) (refusal, bool) {
	var status *StatusError
	errors.As(err, &status)
	switch {
	case status == errReadOnly || status == errForbidden:
		return refusal{"request denied", "policy"}, true
	case status == ErrQuota:
		return refusal{"request denied", "quota"}, true
	case status == errHandles:
		return refusal{"request denied", "limit"}, true
	case status == errBadHandle, codeOf(err) == wire.BadMessage:
		return refusal{"bad request", ""}, true
	case codeOf(err) == wire.PermissionDenied:
		return refusal{"request denied", "backend"}, true
	}
	return refusal{}, false
}

// note writes the line for a request that was answered with err, if there is to be one.
func (f *refusals) note(r *request, err error) {
	refused, ok := refusalOf(err)
	if !ok {
		return
	}
	ok, omitted := f.rate.Take()
	if !ok {
		return
	}
	args := []any{"request", r.op.String()}
	if refused.by != "" {
		args = append(args, "by", refused.by)
	}
	for _, path := range []struct{ name, value string }{{"path", r.about()}, {"to", r.path2}} {
		if path.value != "" {
			args = append(args, path.name, path.value)
		}
	}
	args = append(args, "error", err)
	if omitted > 0 {
		args = append(args, "omitted", omitted)
	}
	f.log.Info(refused.message, args...)
}

// about is the path that a request has to do with.
func (r *request) about() string {
	if r.path == "" && r.handle != nil {
		return r.handle.path
	}
	return r.path
}

// end tells what was not told.
func (f *refusals) end() {
	if omitted := f.rate.Omitted(); omitted > 0 {
		f.log.Info("more requests refused", "omitted", omitted)
	}
}

// changed logs that the tree has changed, unless err says that it has not, and returns err. Of
// attributes it logs the mode, and nothing where there are only times, which come with every copy.
func (v *View) changed(err error, o operation, name, to string, attrs *wire.Attrs) error {
	const logged = wire.AttrPermissions | wire.AttrSize | wire.AttrUIDGID
	if err != nil || v.log == nil || attrs != nil && attrs.Flags&logged == 0 {
		return err
	}
	args := []any{"request", o.String(), "path", name}
	if to != "" {
		args = append(args, "to", to)
	}
	if attrs != nil && attrs.Has(wire.AttrPermissions) {
		args = append(args, "mode", fmt.Sprintf("%04o", attrs.Permissions&0o7777))
	}
	if attrs != nil && attrs.Has(wire.AttrSize) {
		args = append(args, "size", attrs.Size)
	}
	if attrs != nil && attrs.Has(wire.AttrUIDGID) {
		args = append(args, "uid", attrs.UID, "gid", attrs.GID)
	}
	v.log.Info("tree changed", args...)
	return nil
}

// Logged returns the view with a logger, which gets a line for each change of the tree.
func (v *View) Logged(log *slog.Logger) *View {
	logged := *v
	logged.log = log
	return &logged
}

// logTransfer writes the line that says what became of a file.
func (s *session) logTransfer(h *handle, err error) {
	read, written := h.bytesRead.Load(), h.bytesWritten.Load()
	transfer := "download"
	if written > 0 || read == 0 && h.writerAt != nil {
		transfer = "upload"
	}
	args := []any{
		"path", h.path,
		"transfer", transfer,
		"read", read,
		"written", written,
		"seconds", RoundSeconds(time.Since(h.opened)),
	}
	if err != nil {
		s.log.Warn("file closed badly", append(args, "error", err)...)
		return
	}
	s.log.Info("file closed", args...)
}

// RoundSeconds is how long something took, for the log: in seconds, to the millisecond.
func RoundSeconds(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }
