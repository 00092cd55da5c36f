package server

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/usftp/usftp/server/internal/lograte"
	"github.com/usftp/usftp/wire"
)

// refusalLog logs each request that was not allowed or made no sense, so that the log shows who
// tried what. The number of lines is limited: no client may fill the disk by being refused.
type refusalLog struct {
	log  *slog.Logger
	rate lograte.Limit
}

// classify returns the log message for an error, and what refused the request; ok is false for
// errors that are no refusal.
func classify(err error) (message, by string, ok bool) {
	status, _ := errors.AsType[*StatusError](err)
	switch {
	case status == errReadOnly || status == errForbidden:
		return "request denied", "policy", true
	case status == ErrQuota:
		return "request denied", "quota", true
	case status == errHandles:
		return "request denied", "limit", true
	case status == errBadHandle, codeOf(err) == wire.BadMessage:
		return "bad request", "", true
	case codeOf(err) == wire.PermissionDenied:
		return "request denied", "backend", true
	}
	return "", "", false
}

// note logs a request that was answered with err, if that is a refusal.
func (f *refusalLog) note(r *request, err error) {
	message, by, ok := classify(err)
	if !ok {
		return
	}
	ok, omitted := f.rate.Take()
	if !ok {
		return
	}
	args := []any{"request", r.op.String()}
	if by != "" {
		args = append(args, "by", by)
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
	f.log.Info(message, args...)
}

// about returns the path that a request concerns.
func (r *request) about() string {
	if r.path == "" && r.handle != nil {
		return r.handle.path
	}
	return r.path
}

// end logs how many lines were omitted.
func (f *refusalLog) end() {
	if omitted := f.rate.Omitted(); omitted > 0 {
		f.log.Info("more requests refused", "omitted", omitted)
	}
}

// changed logs a change to the tree, unless err is set, and returns err. Setting times is not
// logged, since every copy does it.
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

// Logged returns the view with a logger, which gets a line for each change to the tree.
func (v *View) Logged(log *slog.Logger) *View {
	logged := *v
	logged.log = log
	return &logged
}

// speed returns what the log says about how long a transfer took.
func speed(bytes int64, took time.Duration) []any {
	seconds := took.Round(time.Millisecond).Seconds()
	args := []any{"seconds", seconds}
	if bytes > 0 && seconds > 0 {
		args = append(args, "bytes_per_second", int64(float64(bytes)/seconds))
	}
	return args
}

// logTransfer logs the end of a transfer.
func (s *session) logTransfer(h *handle, abandoned bool, err error) {
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
	}
	args = append(args, speed(int64(read+written), time.Since(h.opened))...)
	switch {
	case abandoned:
		s.log.Warn("file abandoned", append(args, "error", err)...)
	case err != nil:
		s.log.Warn("file failed", append(args, "error", err)...)
	default:
		s.log.Info("file closed", args...)
	}
}
