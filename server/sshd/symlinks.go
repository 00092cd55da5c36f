package sshd

import "strings"

// draftClients are clients that send SYMLINK's paths in the order of the draft
// (draft-ietf-secsh-filexfer-02, section 6.10: link, target) to a server whose name they do not
// know as one that has them the other way round, as OpenSSH has (PROTOCOL, section 4.1). We do not
// call ourselves OpenSSH: clients infer far more than this from that name, and scanners, too.
//
// What clients do, by their sources:
//
//	OpenSSH, PuTTY, curl and others on libssh2   target first, whatever the server
//	paramiko, JSch, phpseclib, pkg/sftp          target first, whatever the server
//	trilead-ssh2 (SFTPv3Client.java)             target first, whatever the server
//	Apache MINA                                  target first, whatever the server, before SFTP 6
//	sshj, russh-sftp, Net::SFTP of Ruby          as their caller has it, whatever the server
//	asyncssh     link first, unless the name has OpenSSH or paramiko in it (sftp.py)
//	libssh       link first, unless the name is OpenSSH's (sftp_symlink in sftp.c)
//	ssh2 of npm  link first, unless the name begins with OpenSSH or dropbear (protocol/SFTP.js)
//	WinSCP       link first, unless the name is that of OpenSSH or of ProFTPD (CreateLink in
//	             SftpFileSystem.cpp), or its user says otherwise (SFTP bugs, in its settings)
//
// FileZilla's fzsftp is PuTTY's psftp, which makes no links. Rebex is closed, and its documentation
// does not say.
//
// Nimble Commander asks the name, too, but calls itself libssh2, as clients do that do not ask.
var draftClients = []string{"AsyncSSH_", "libssh_", "libssh-", "ssh2js", "WinSCP_"}

// draftSymlinks reports whether the client with this version line is one of them.
func draftSymlinks(client string) bool {
	name, ok := strings.CutPrefix(client, "SSH-2.0-")
	for _, draft := range draftClients {
		if ok && strings.HasPrefix(name, draft) {
			return true
		}
	}
	return false
}
