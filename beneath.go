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
	message := wire.Beneath{Request: request, Top: top, Path: name}
	return c.do(c.command(op, path.Join(top, name), message).needs(wire.ExtBeneath))
}

// RenameBeneath implements private.Client.
func (c privateClient) RenameBeneath(top, oldName, newName string) error {
	message := wire.Beneath{Request: wire.TypeRename, Top: top, Path: oldName, NewPath: newName}
	return c.do(c.command2("rename", path.Join(top, oldName), path.Join(top, newName),
		message).needs(wire.ExtBeneath))
}
