// Package dial turns a host and path as a person types them into byte streams that speak SFTP.
//
// [Client] does it all in one call:
//
//	client, err := dial.Client(ctx, "me@example.com")
//
// [ParseTarget] reads "user@host:path" and "sftp://user@host:port/path", [New] reads the user's
// ssh_config for the host, [Dialer.Dial] connects and logs in, and [Conn.Open] starts SFTP in a new
// channel, as often as needed.
//
// # Two transports
//
// The native one speaks SSH itself. The other runs the system's ssh ([Config].SSH), once for each
// stream, for features that the native one lacks, such as GSSAPI and PKCS #11 without an agent.
//
// If USFTP_SSH_STACK=xcrypto is in the environment the native one uses golang.org/x/crypto/ssh, to
// find out whether our own transport is to blame for a problem. With it Compression and
// RekeyLimit's time have no effect. There is no automatic fallback: nothing a server says before
// keys are exchanged is authenticated, so a fallback would let an attacker choose.
//
// # Configuration
//
// If OpenSSH is installed `ssh -G` resolves the configuration, so that all of it (Match, Include,
// tokens) means the same as to ssh. Otherwise a library reads the same files, and anything it
// cannot read is an error. A keyword that changes where or how to connect, or whom to trust, and
// that the native transport does not implement, fails with an [*UnsupportedError]. One that merely
// has no effect is logged.
//
// The native transport honours AddKeysToAgent (but not "ask"), AddressFamily, BatchMode,
// BindAddress, BindInterface, CASignatureAlgorithms, CertificateFile, Ciphers, Compression,
// ConnectionAttempts, ConnectTimeout, ControlMaster (not to be one), ControlPath,
// GlobalKnownHostsFile, HashKnownHosts, Host, HostKeyAlgorithms, HostKeyAlias, HostName,
// IdentitiesOnly, IdentityAgent, IdentityFile, Include, KbdInteractiveAuthentication,
// KexAlgorithms, KnownHostsCommand, LogLevel, MACs, Match, NoHostAuthenticationForLocalhost,
// NumberOfPasswordPrompts, PasswordAuthentication, Port, PreferredAuthentications, ProxyCommand,
// ProxyJump, PubkeyAcceptedAlgorithms, PubkeyAuthentication, RefuseConnection, RekeyLimit,
// RequiredRSASize, RevokedHostKeys, SecurityKeyProvider, ServerAliveCountMax, ServerAliveInterval,
// StrictHostKeyChecking (but a changed key is refused even with "no"), TCPKeepAlive, User and
// UserKnownHostsFile. It refuses ProxyUseFdpass, and lists of algorithms or login methods of which
// it implements none. CanonicalizeHostname needs OpenSSH to be installed.
//
// # OpenSSH masters
//
// If ControlPath names the socket of a live ControlMaster, the first connection goes through it and
// needs no login. A master that does not answer within three seconds is ignored. ControlMaster=yes
// and =ask mean, as to ssh, that no existing master is used. Further connections of a [Dialer] log
// in themselves, and fail if that needs a person.
//
// # Keys
//
// Identity files may be OpenSSH's, PuTTY's (.ppk), or PEM, encrypted in any way that ssh-keygen,
// puttygen and OpenSSL offer today. Files for keys on FIDO2 tokens need ssh-sk-helper, which comes
// with OpenSSH; SSH_SK_HELPER names another. Keys of a PKCS #11 module are used from an agent.
//
// # Logging in
//
// If a key is likely to be right, the login takes one flight: right after the key exchange goes the
// signature, and with it, to OpenSSH's servers, the request for SFTP. SFTP then runs four round
// trips after the first packet, TCP's own included; OpenSSH before 9.8 takes one more. The likely
// key is the one that worked before for this user, server key and port ([Config].StateDir),
// otherwise the only key, or with IdentitiesOnly the first. A key that needs a person is never used
// before the server has said that it would accept it. An agent's key is used at once only if it
// worked before, since agents do not say which keys must be confirmed. A refused key counts as one
// failed attempt, just as if it had been offered. A server that looks like OpenSSH but does not
// accept the flight costs a second connection, and only once if there is a StateDir.
//
// Otherwise a login asks as OpenSSH's client does, with the likeliest key first. The [Dialer] keeps
// a person's answers in memory, so that further connections need nobody; they offer only
// credentials that worked before. [Dialer.NeedsPerson] reports when that is not possible. If the
// server wants a new password, the Dialer asks for it ([AskNewPassword]) and keeps it.
//
// A server that hangs up before it has shown its key, as sshd does at random while many others log
// in (MaxStartups), is tried up to three times more within seven seconds, unless it is behind a
// ProxyCommand, or behind a jump host where each login needs a person.
package dial
