//go:build linux || darwin || freebsd

package server_test

import (
	"testing"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/osfs"
)

func init() {
	backends["folders"] = func(t *testing.T) server.FS {
		tree, err := server.NewFolders(server.Folder{Path: "/", FS: serving(t, osfs.New)},
			server.Folder{Path: "/not used", Policy: server.Policy{ReadOnly: true}})
		if err != nil {
			t.Fatal(err)
		}
		return tree
	}
	lacking["folders"] = map[string]string{
		"paths":     "paths are clean before they are looked at",
		"real path": "paths are clean before they are looked at",
	}
}
