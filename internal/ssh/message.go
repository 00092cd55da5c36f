package ssh

// The numbers of messages: RFC 4250, section 4.1, and OpenSSH's PROTOCOL.
const (
	msgDisconnect     = 1
	msgIgnore         = 2
	msgUnimplemented  = 3
	msgDebug          = 4
	msgServiceRequest = 5
	msgServiceAccept  = 6
	msgExtInfo        = 7 // RFC 8308

	msgKexInit = 20
	msgNewKeys = 21
	// 30 to 49 belong to the method of key exchange
	msgKexFirst        = 30
	msgKexLast         = 49
	msgKexInitial      = 30 // KEXDH_INIT, KEX_ECDH_INIT, KEX_HYBRID_INIT
	msgKexReply        = 31
	msgKexGEXGroup     = 31 // RFC 4419, section 5
	msgKexGEXInit      = 32
	msgKexGEXReply     = 33
	msgKexGEXRequest   = 34
	msgUserAuthRequest = 50
	msgUserAuthFailure = 51
	msgUserAuthSuccess = 52
	msgUserAuthBanner  = 53
	// 60 to 79 belong to the method of authentication
	msgUserAuthPubKeyOK       = 60 // RFC 4252, section 7
	msgUserAuthPasswordChange = 60 // RFC 4252, section 8
	msgUserAuthInfoRequest    = 60 // RFC 4256, section 3.2
	msgUserAuthInfoResponse   = 61

	msgGlobalRequest       = 80
	msgRequestSuccess      = 81
	msgRequestFailure      = 82
	msgChannelOpen         = 90
	msgChannelOpenConfirm  = 91
	msgChannelOpenFailure  = 92
	msgChannelWindowAdjust = 93
	msgChannelData         = 94
	msgChannelExtendedData = 95
	msgChannelEOF          = 96
	msgChannelClose        = 97
	msgChannelRequest      = 98
	msgChannelSuccess      = 99
	msgChannelFailure      = 100

	msgPing = 192 // PROTOCOL, section 1.8 (transport: ping facility)
	msgPong = 193
)

const (
	serviceUserAuth   = "ssh-userauth"
	serviceConnection = "ssh-connection"
)

// Reasons of DISCONNECT: RFC 4253, section 11.1.
const (
	reasonProtocolError       = 2
	reasonServiceNotAvailable = 7
	ReasonByApplication       = 11
	ReasonTooManyConnections  = 12
	reasonNoMoreAuthMethods   = 14
)

func disconnectMessage(reason uint32, text string) []byte {
	p := appendUint32([]byte{msgDisconnect}, reason)
	return appendString(appendString(p, text), "")
}

func parseDisconnect(payload []byte) (*DisconnectError, error) {
	r := body(payload, msgDisconnect)
	d := &DisconnectError{Reason: r.Uint32(), Text: string(cut(r.Bytes(), 1024))}
	return d, r.parsed() // some peers leave out the language tag
}

// cut shortens data that a peer may make long and we keep.
func cut(p []byte, most int) []byte { return p[:min(len(p), most)] }

// maxExtensions limits the entries of one EXT_INFO.
const maxExtensions = 1024

// parseExtInfo returns the one extension that matters to us: server-sig-algs.
func parseExtInfo(payload []byte) (sigAlgs []string, err error) {
	r := body(payload, msgExtInfo)
	n := r.Uint32()
	if n > maxExtensions {
		return nil, &ProtocolError{"EXT_INFO has too many extensions"}
	}
	for range n {
		if r.String() == "server-sig-algs" {
			sigAlgs = r.Names()
		} else {
			r.Bytes()
		}
	}
	return sigAlgs, r.parsed()
}

// appendExtInfo appends the server's EXT_INFO.
func appendExtInfo(p []byte, sigAlgs []string) []byte {
	p = appendUint32(append(p, msgExtInfo), 2)
	p = appendNames(appendString(p, "server-sig-algs"), sigAlgs)
	return appendString(appendString(p, "ping@openssh.com"), "0")
}
