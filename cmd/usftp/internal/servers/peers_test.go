//go:build linux

package servers_test

// peers are the servers, in the order of docs/hosts.md.
var peers = []peer{
	{"OpenSSH", "9.2p1", openSSH, nil},
	{"dropbear, with OpenSSH's sftp-server", "2022.83", dropbear, nil},
	{"AsyncSSH", "2.10.1", script(python("asyncssh")), nil},
	{"ProFTPD's mod_sftp", "1.3.8", proFTPD, nil},
	{"Apache MINA SSHD", "2.16.0", script(java("mina")), []limit{noSpace}},
	{"ssh2 for Node.js", "1.17.0", script(node), []limit{noHardLinks, noSpace}},
	{"Twisted Conch", "22.4.0", script(python("twisted")), []limit{noHardLinks, noSpace}},
	{"Erlang/OTP", "25.2.3", script(erlang), []limit{noHardLinks, noSpace}},
	{"Maverick Synergy", "3.1.1", script(java("maverick")), []limit{noHardLinks, noSpace,
		{[]string{"links in trees"}, "reading relative links", "no such file"}}},
	{"pkg/sftp in memory", "1.13.12", pkgSFTP, []limit{
		{[]string{"df"}, "free space", "no such file"},
		{[]string{"ln"}, "listing both names of a hard link, which cannot be seen", ""},
		{[]string{"chmod", "touch", "cp -p up"}, "times and permissions, which it does not say",
			"says that it is done, but nothing|the host does not set |times are not compared"},
	}},
	{"SFTPGo as it is installed (played)", "2.7", played("SSH-2.0-SFTPGo_2.7", likeSFTPGo,
		"USFTP_SFTPGO", sftpGo), []limit{noHardLinks,
		{[]string{"links in trees", "ln -s"}, "symbolic links", "unsupported|does not support"}}},
	{"wolfSSH (played)", "1.5.0", played("SSH-2.0-wolfSSHv1.5.0", likeWolfSSH, "USFTP_WOLFSSH",
		wolfSSH), []limit{noHardLinks, noSpace,
		{[]string{"links in trees", "ln -s"}, "symbolic links", "Unknown/Unsupported packet type"},
		{[]string{"touch", "cp -p up"}, "times, which it does not say",
			"says that it is done, but nothing|the host does not set |times are not compared"}}},
}

// Limits of several servers.
var (
	noHardLinks = limit{[]string{"ln"}, "hard links", "does not support this"}
	noSpace     = limit{[]string{"df"}, "free space", "does not support this"}
)
