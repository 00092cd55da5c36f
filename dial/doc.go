// Package dial leads from what a person types to byte streams that speak SFTP.
//
// [ParseTarget] reads "user@host:path" and "sftp://user@host:port/path", [New] finds out
// what the user's ssh_config says about the host, [Dialer.Dial] connects and logs in, and
// [Conn.Open] starts SFTP in a channel of its own, several times if wanted.
//
// # Two transports
//
// The native one speaks SSH itself, by golang.org/x/crypto/ssh. The other runs the
// system's ssh ([Config].SSH), once for each stream, for what the native one lacks: keys
// on a token without an agent, PKCS#11, GSSAPI.
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
// CASignatureAlgorithms, CertificateFile, Ciphers, ConnectionAttempts, ConnectTimeout,
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
// # Logging in
//
// A login and the opening of a stream take as many round trips as OpenSSH's own client
// needs: ten after TCP's own, of which the last is SFTP's first. Two of them, the probe
// "none" and the question whether a key would do, x/crypto/ssh and OpenSSH both spend.
// Keys are offered the likeliest first. What a person typed is kept in memory by the
// [Dialer], so that further connections need nobody; they offer only what worked before.
// [Dialer.NeedsPerson] tells where that is not possible.
package dial
