// Package dial leads from what a person types to byte streams that speak SFTP.
//
// [ParseTarget] reads "user@host:path" and "sftp://user@host:port/path", [New] finds out
// what the user's ssh_config says about the host, [Dialer.Dial] connects and logs in, and
// [Conn.Open] starts SFTP in a channel of its own, several times if wanted.
//
// # Two transports
//
// The native one speaks SSH itself. The other runs the system's ssh ([Config].SSH), once for each
// stream, for what the native one lacks: keys on a token without an agent, PKCS#11, GSSAPI.
//
// The environment's USFTP_SSH_STACK=xcrypto has the native one use golang.org/x/crypto/ssh, to find
// out whether our own transport is to blame for something. Nothing falls back to it: what a server
// says of itself before keys are exchanged is not authenticated, so that a fallback would let an
// attacker choose.
//
// # Configuration
//
// Where OpenSSH is installed `ssh -G` resolves the configuration, so that every word of it
// (Match, Include, tokens) means what it means to ssh. Else a library reads the same
// files, and what it cannot read is an error. A word that changes where or how to connect,
// or whom to trust, and that the native transport does not implement is refused with an
// [*UnsupportedError]; what merely has no effect is told to the Logger.
//
// The native transport honours AddressFamily, BatchMode, BindAddress,
// CASignatureAlgorithms, CertificateFile, Ciphers, ConnectionAttempts, ConnectTimeout, ControlMaster
// (not to be one), ControlPath,
// GlobalKnownHostsFile, HashKnownHosts, Host, HostKeyAlgorithms, HostKeyAlias, HostName,
// IdentitiesOnly, IdentityAgent, IdentityFile, Include, KbdInteractiveAuthentication,
// KexAlgorithms, MACs, Match, NoHostAuthenticationForLocalhost, NumberOfPasswordPrompts,
// PasswordAuthentication, Port, PreferredAuthentications, ProxyCommand, ProxyJump,
// PubkeyAcceptedAlgorithms, PubkeyAuthentication, RefuseConnection, RekeyLimit (its
// bytes), RequiredRSASize, ServerAliveCountMax, ServerAliveInterval,
// StrictHostKeyChecking (but a changed key is refused even with "no"), TCPKeepAlive, User
// and UserKnownHostsFile. It refuses BindInterface, KnownHostsCommand, PKCS11Provider,
// ProxyUseFdpass, RevokedHostKeys, SecurityKeyProvider and VerifyHostKeyDNS where they
// differ from their defaults, lists of algorithms of which it has none, and methods of
// logging in of which it has none. CanonicalizeHostname needs OpenSSH to be installed.
//
// # A master of OpenSSH's
//
// Where ControlPath names the socket of a live ControlMaster, the first connection goes through it
// and needs no login at all; a master that does not answer within three seconds is not used.
// ControlMaster=yes and =ask mean, as to ssh, that no other master is to be used. Further
// connections of a [Dialer] log in by themselves, and fail where that needs a person.
//
// # Logging in
//
// Where a key is likely to be right, the login takes one flight: behind the exchange of keys the
// signature leaves at once, and to OpenSSH's servers the request for SFTP with it. SFTP runs four
// round trips after the first packet, TCP's own included; OpenSSH before 9.8 takes one more. Likely
// is the key that worked before for this user, server key and port ([Config].StateDir); else the
// only key there is, and with IdentitiesOnly the first. A key that needs a person is never used
// before the server has said that it would do, and an agent's only once it has worked, since agents
// do not say which keys must be confirmed. A refused key counts as one failed attempt, as offering
// it would. A server that looks like OpenSSH and does not take the flight costs a second connection,
// once where there is a StateDir.
//
// Otherwise a login asks as OpenSSH's client does, keys the likeliest first. What a person typed is
// kept in memory by the [Dialer], so that further connections need nobody; they offer only what
// worked before. [Dialer.NeedsPerson] tells where that is not possible.
package dial
