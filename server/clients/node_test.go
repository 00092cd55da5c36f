package clients_test

// ssh2 is the npm package, driven by a program in testdata; NODE_PATH names its directory.
var ssh2 = func() *client {
	noTrees := "ssh2 moves single files"
	return &client{
		programs: []string{"node"},
		prepare:  func(s *site) { s.drive("ssh2 of npm", "node", testdata("ssh2_client.js")) },
		put:      driven("put"), get: driven("get"), rename: driven("rename"),
		symlink: driven("symlink"), link: driven("link"), chmod: driven("chmod"), list: listDriven,
		cannot: map[string]string{
			"put tree": noTrees, "get tree": noTrees, "resume put": "ssh2 copies whole files",
			"resume get": "ssh2 copies whole files", "copy": "ssh2 does not know copy-data",
		},
	}
}()
