package server

import (
	"context"
	"strings"

	"github.com/usftp/usftp/wire"
)

// A beneath is what [wire.ExtBeneath] adds to the wrapped request; docs/beneath.md describes it.
type beneath struct{ top, name, newName string }

var errNotBeneath = &StatusError{Code: wire.BadMessage,
	Message: "the path is empty or contains an empty element, . or .."}

// readBeneath turns r into the wrapped request, so that the policy, the order of requests, the
// quota and the log treat it alike.
func (r *request) readBeneath(v *View, in *wire.Reader) {
	if err := v.permit(opBeneath); err != nil {
		r.bad = err
		return
	}
	switch wire.Type(in.Byte()) {
	case wire.TypeRemove:
		r.op = opRemove
	case wire.TypeRmdir:
		r.op = opRmdir
	case wire.TypeRename:
		r.op = opRename
	default:
		r.bad = errUnsupported
		return
	}
	r.changes = true
	b := &beneath{top: r.readPath(v, in), name: r.readName(in)}
	r.beneath = b
	r.path = r.pathBeneath(b.top, b.name)
	if r.op == opRename {
		b.newName = r.readName(in)
		r.path2 = r.pathBeneath(b.top, b.newName)
	}
}

// pathBeneath returns the path that any other request would have.
func (r *request) pathBeneath(top, name string) string {
	for element := range strings.SplitSeq(name, "/") {
		if r.bad == nil && (element == "" || element == "." || element == "..") {
			r.bad = errNotBeneath
		}
	}
	joined := strings.TrimSuffix(top, "/") + "/" + name
	if r.bad == nil && len(joined) > maxPath {
		r.bad = errLongPath
	}
	return joined
}

// runBeneath runs the request that [wire.ExtBeneath] wraps.
func (v *View) runBeneath(ctx context.Context, r *request) error {
	b := r.beneath
	return change(v, r.op, r.path, r.path2, nil, func(backend Beneather) error {
		switch r.op {
		case opRemove:
			return v.quotaRemove(ctx, r.path,
				func() error { return backend.RemoveBeneath(ctx, b.top, b.name) })
		case opRmdir:
			return v.quotaRemove(ctx, r.path,
				func() error { return backend.RmdirBeneath(ctx, b.top, b.name) })
		}
		return v.quotaReplace(ctx, r.path, r.path2,
			func() error { return backend.RenameBeneath(ctx, b.top, b.name, b.newName) })
	})
}
