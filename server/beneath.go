package server

import (
	"context"
	"strings"

	"github.com/usftp/usftp/wire"
)

// A beneath is the addition of [wire.ExtBeneath] to the wrapped request; see docs/beneath.md.
type beneath struct {
	length int    // of top in the client's paths, with the slash after it
	top    string // absolute
}

// beneathOperations are the requests that may be wrapped: all that act on a path.
const beneathOperations operationSet = 1<<opOpen | 1<<opOpendir | 1<<opStat | 1<<opLstat |
	1<<opSetstat | 1<<opLsetstat | 1<<opReadlink | 1<<opRemove | 1<<opRmdir | 1<<opMkdir |
	1<<opSymlink | 1<<opRename | 1<<opPosixRename | 1<<opHardlink | 1<<opPutFiles |
	1<<opGetFiles

var errNotBeneath = &StatusError{Code: wire.BadMessage,
	Message: "the path is not in the directory, or contains an empty element, . or .."}

// unwrap turns r into the wrapped request, so that the policy, the order of requests, the quota and
// the log treat it like any other. It returns the rest of the wrapped packet.
func (r *request) unwrap(v *View, body []byte) ([]byte, error) {
	if err := v.permit(opBeneath); err != nil {
		return nil, err
	}
	if !v.serves(opBeneath) {
		return nil, errUnsupported
	}
	var m wire.Beneath
	if m.Parse(body) != nil {
		return nil, errBadMessage
	}
	body, err := r.identify(m.Request, m.Body)
	if err == nil && !beneathOperations.has(r.op) {
		err = errUnsupported
	}
	r.beneath = &beneath{length: int(min(m.Top, maxPath))}
	return body, err
}

// check checks a path, and sets b.top from it.
func (b *beneath) check(v *View, name string) error {
	if b.length > len(name) || b.length > 0 && name[b.length-1] != '/' {
		return errNotBeneath
	}
	for element := range strings.SplitSeq(name[b.length:], "/") {
		if element == "" || element == "." || element == ".." {
			return errNotBeneath
		}
	}
	top := v.Path(name[:b.length])
	if b.top != "" && b.top != top {
		return errNotBeneath
	}
	b.top = top
	return nil
}

type beneathKey struct{}

// WithBeneath returns a context for one request that must follow no link beneath top; see
// [Beneath].
func WithBeneath(ctx context.Context, top string) context.Context {
	return context.WithValue(ctx, beneathKey{}, top)
}

// Beneath returns the directory beneath which the request with this context must follow no symbolic
// link, not even as the last element of a path, even if a directory is replaced by a link
// meanwhile. Links on the way to the directory, and the directory itself, are followed. The
// request's paths begin with top, and a slash unless top ends in one; at least one element follows,
// none of them "", "." or "..". ok is false for all other requests. It serves a [Beneather], which
// gets such requests through the same methods as all others.
func Beneath(ctx context.Context) (top string, ok bool) {
	top, _ = ctx.Value(beneathKey{}).(string)
	return top, top != ""
}
