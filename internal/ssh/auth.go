package ssh

import xssh "golang.org/x/crypto/ssh"

// Messages of user authentication: RFC 4252, and RFC 4256 for keyboard-interactive.

// authRequest is USERAUTH_REQUEST; rest is the method's own part.
type authRequest struct {
	user, service, method string
	rest                  []byte
}

func (a *authRequest) append(p []byte) []byte {
	p = appendString(append(p, msgUserAuthRequest), a.user)
	return append(appendString(appendString(p, a.service), a.method), a.rest...)
}

func (a *authRequest) parse(payload []byte) error {
	r := body(payload, msgUserAuthRequest)
	a.user, a.service, a.method = r.String(), r.String(), r.String()
	a.rest = r.Rest()
	return r.parsed()
}

// keyRequest is the publickey method's part: RFC 4252, section 7.
type keyRequest struct {
	signed    bool
	algo      string
	key       []byte
	signature []byte
}

func (k *keyRequest) append(p []byte) []byte {
	p = appendString(appendString(appendBool(p, k.signed), k.algo), k.key)
	if k.signature != nil {
		p = append(p, k.signature...) // already encoded as a string
	}
	return p
}

func (k *keyRequest) parse(rest []byte) error {
	r := fields(rest, msgUserAuthRequest)
	k.signed = r.Bool()
	k.algo, k.key = r.String(), r.Bytes()
	if k.signed {
		k.signature = r.Bytes()
	}
	return r.whole()
}

// signedData returns the data that a user signs: RFC 4252, section 7.
func (a *authRequest) signedData(session []byte, k keyRequest) []byte {
	k.signed, k.signature = true, nil
	own := *a
	own.rest = k.append(nil)
	return own.append(appendString(nil, session))
}

type authFailure struct {
	methods []string
	partial bool
}

func (f *authFailure) append(p []byte) []byte {
	return appendBool(appendNames(append(p, msgUserAuthFailure), f.methods), f.partial)
}

func (f *authFailure) parse(payload []byte) error {
	r := body(payload, msgUserAuthFailure)
	f.methods, f.partial = r.Names(), r.Bool()
	return r.parsed()
}

func parseBanner(payload []byte) (string, error) {
	r := body(payload, msgUserAuthBanner)
	text := r.String()
	return text, r.parsed() // some servers leave out the language tag
}

// maxQuestions limits how many questions a server may ask at a time, and how many answers a client
// may send.
const maxQuestions = 64

// infoRequest is a question of keyboard-interactive: RFC 4256, section 3.2.
type infoRequest struct {
	name, instruction string
	questions         []string
	echos             []bool
}

func (q *infoRequest) append(p []byte) []byte {
	p = appendString(appendString(append(p, msgUserAuthInfoRequest), q.name), q.instruction)
	p = appendUint32(appendString(p, ""), uint32(len(q.questions)))
	for i, text := range q.questions {
		p = appendBool(appendString(p, text), q.echos[i])
	}
	return p
}

func (q *infoRequest) parse(payload []byte) error {
	r := body(payload, msgUserAuthInfoRequest)
	q.name, q.instruction = r.String(), r.String()
	r.Bytes() // language
	n := r.Uint32()
	if n > maxQuestions {
		return &ProtocolError{"the server asks too many questions"}
	}
	for range n {
		q.questions = append(q.questions, r.String())
		q.echos = append(q.echos, r.Bool())
	}
	return r.parsed()
}

func appendInfoResponse(p []byte, answers []string) []byte {
	p = appendUint32(append(p, msgUserAuthInfoResponse), uint32(len(answers)))
	for _, a := range answers {
		p = appendString(p, a)
	}
	return p
}

func parseInfoResponse(payload []byte) (answers []string, err error) {
	r := body(payload, msgUserAuthInfoResponse)
	n := r.Uint32()
	if n > maxQuestions {
		return nil, &ProtocolError{"too many answers"}
	}
	for range n {
		answers = append(answers, r.String())
	}
	return answers, r.parsed()
}

// A Challenge answers keyboard-interactive's questions.
type Challenge = xssh.KeyboardInteractiveChallenge

// An AuthMethod is one way to log in, for a single attempt: made by [PublicKey], [Password] or
// [KeyboardInteractive].
type AuthMethod interface {
	name() string
	// attempt sends the request and answers the server's questions until it decides.
	attempt(l *clientLogin) (decision, error)
}
