package server

import (
	"errors"
	"log/slog"

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
