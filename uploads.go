package usftp

import (
	"io/fs"
	"path"

	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/wire"
)

// KeepsUploads implements private.Client. Who cannot give an upload up would publish half of it.
func (c privateClient) KeepsUploads() bool {
	return c.offered(wire.ExtUploads) && c.offered(wire.ExtAbandon)
}

// Upload implements private.Client.
func (c privateClient) Upload(name string) (fs.FileInfo, error) {
	return run(c.ctx, ask(c.session, "stat", name, wire.TypeAttrs,
		wire.ExtendedPath{Name: wire.ExtUploads, Path: name},
		func(call *conn.Call) (fs.FileInfo, error) {
			stat, err := attrsReply(call)
			if err != nil {
				return nil, err
			}
			return fileInfo{path.Base(name), stat}, nil
		}).needs(wire.ExtUploads))
}
