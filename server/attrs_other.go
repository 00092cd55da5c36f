//go:build !linux && !darwin

package server

import (
	"io/fs"

	"github.com/usftp/usftp/wire"
)

func addSystemAttrs(*wire.Attrs, fs.FileInfo) {}

func systemLinkCount(fs.FileInfo) uint64 { return 0 }

func systemIdentity(fs.FileInfo) (any, bool) { return nil, false }
