package sshd

import "strings"

// draftClients are clients that send SYMLINK's paths in the draft's order
// (draft-ietf-secsh-filexfer-02, section 6.10: link, target) unless they know that a server of this
// name uses OpenSSH's reverse order (PROTOCOL, section 4.1). We do not call ourselves OpenSSH:
// clients and scanners infer far more than this from that name.
//
// The order of clients, according to their sources:
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
// FileZilla's fzsftp is PuTTY's psftp, which makes no links. Rebex is closed source, and its
// documentation does not say.
//
// Nimble Commander checks the name, too, but identifies itself as libssh2, like clients that do not
// check.
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
