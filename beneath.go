package usftp

import (
	"path"

	"github.com/usftp/usftp/wire"
)

// RemovesBeneath implements private.Client.
func (c privateClient) RemovesBeneath() bool { return c.offered(wire.ExtBeneath) }

// RemoveBeneath implements private.Client.
func (c privateClient) RemoveBeneath(top, name string, directory bool) error {
	op, request := "remove", wire.TypeRemove
	if directory {
		op, request = "rmdir", wire.TypeRmdir
	}
	_, err := run(c.ctx, c.command(op, path.Join(top, name),
		wire.Beneath{Request: request, Top: top,
			Path: name}).needs(wire.ExtBeneath))
	return err
}

// RenameBeneath implements private.Client.
func (c privateClient) RenameBeneath(top, oldName, newName string) error {
	_, err := run(c.ctx, c.command2("rename", path.Join(top, oldName), path.Join(top, newName),
		wire.Beneath{Request: wire.TypeRename, Top: top, Path: oldName,
			NewPath: newName}).needs(wire.ExtBeneath))
	return err
}
