package ssh

import (
	"bytes"
	"crypto/ecdh"
	"crypto/mlkem"
	"crypto/rand"
	"crypto/sha256"
	"slices"
)

// valueExchange is a method with one message in each direction: INIT with the client's public
// value, REPLY with the host key, the server's public value, and the signature. RFC 4253, section
// 8, and RFC 5656, section 4.
type valueExchange struct {
	begin       begin // the client
	answer      func(client []byte) (public, secret []byte, err error)
	init, reply byte   // numbers of the two messages
	before      []byte // precedes both values in the exchange hash: RFC 4419, section 3
}

// begin makes one side's public value; finish derives the secret from the other side's.
type begin func() (public []byte, finish func(peer []byte) (secret []byte, err error), err error)

var errKexValue = &ProtocolError{"invalid public value in the key exchange"}

// symmetric returns a method whose sides do the same. Its secret is a number.
func symmetric(number begin) *valueExchange {
	own := func() ([]byte, func([]byte) ([]byte, error), error) {
		public, finish, err := number()
		return public, func(peer []byte) ([]byte, error) {
			secret, err := finish(peer)
			return appendMPInt(nil, secret), err
		}, err
	}
	return &valueExchange{init: msgKexInitial, reply: msgKexReply, begin: own,
		answer: func(client []byte) (public, secret []byte, err error) {
			public, finish, err := own()
			if err == nil {
				secret, err = finish(client)
			}
			return public, secret, err
		}}
}

func (x *valueExchange) client(t *transport) (*kexReply, *kexResult, error) {
	public, finish, err := x.begin()
	if err != nil {
		return nil, nil, err
	}
	if err := t.out.urgent(appendString([]byte{x.init}, public)); err != nil {
		return nil, nil, err
	}
	payload, err := t.kexMessage(x.reply)
	if err != nil {
		return nil, nil, err
	}
	reply, server, err := parseKexReply(payload, x.reply)
	if err != nil {
		return nil, nil, err
	}
	secret, err := finish(server)
	if err != nil {
		return nil, nil, errKexValue
	}
	return reply, x.result(public, server, secret), nil
}

func (x *valueExchange) server(t *transport,
	sign func(*kexResult) (*kexReply, error)) (*kexResult, error) {
	payload, err := t.kexMessage(x.init)
	if err != nil {
		return nil, err
	}
	client, err := parseKexValue(payload, x.init)
	if err != nil {
		return nil, err
	}
	public, secret, err := x.answer(client)
	if err != nil {
		return nil, errKexValue
	}
	result := x.result(client, public, secret)
	reply, err := sign(result)
	if err != nil {
		return nil, err
	}
	return result, t.out.stageOnly(appendKexReply(nil, x.reply, reply, public))
}

func (x *valueExchange) result(client, server, secret []byte) *kexResult {
	public := appendString(appendString(bytes.Clone(x.before), client), server)
	return &kexResult{secret: secret, public: public}
}

func appendKexReply(p []byte, number byte, reply *kexReply, public []byte) []byte {
	p = appendString(append(p, number), reply.hostKey)
	return appendString(appendString(p, public), reply.signature)
}

func parseKexReply(payload []byte, number byte) (reply *kexReply, public []byte, err error) {
	r := body(payload, number)
	reply = &kexReply{hostKey: bytes.Clone(r.Bytes())}
	public = bytes.Clone(r.Bytes())
	reply.signature = bytes.Clone(r.Bytes())
	if err := r.whole(); err != nil {
		return nil, nil, err
	}
	return reply, public, nil
}

func parseKexValue(payload []byte, number byte) ([]byte, error) {
	r := body(payload, number)
	value := bytes.Clone(r.Bytes())
	return value, r.whole()
}

// curve uses crypto/ecdh, which checks that points lie on the curve, and that X25519's result is
// not zero (RFC 8731, section 3).
func curve(c ecdh.Curve) begin {
	return func() ([]byte, func([]byte) ([]byte, error), error) {
		private, err := c.GenerateKey(rand.Reader)
		if err != nil {
			return nil, nil, err
		}
		return private.PublicKey().Bytes(), func(peer []byte) ([]byte, error) {
			public, err := c.NewPublicKey(peer)
			if err != nil {
				return nil, err
			}
			return private.ECDH(public)
		}, nil
	}
}

func newX25519() kexMethod { return symmetric(curve(ecdh.X25519())) }
func newP256() kexMethod   { return symmetric(curve(ecdh.P256())) }
func newP384() kexMethod   { return symmetric(curve(ecdh.P384())) }
func newP521() kexMethod   { return symmetric(curve(ecdh.P521())) }

const x25519Size = 32

// newMLKEM returns the method of draft-ietf-sshm-mlkem-hybrid-kex: each message has ML-KEM's value
// followed by X25519's, and the secret is a hash of both, encoded as a string.
func newMLKEM() kexMethod {
	x25519 := curve(ecdh.X25519())
	join := func(pq, classic []byte) []byte {
		sum := sha256.Sum256(slices.Concat(pq, classic))
		return appendString(nil, sum[:])
	}
	return &valueExchange{
		init: msgKexInitial, reply: msgKexReply,
		begin: func() ([]byte, func([]byte) ([]byte, error), error) {
			decapsulate, err := mlkem.GenerateKey768()
			if err != nil {
				return nil, nil, err
			}
			public, finish, err := x25519()
			if err != nil {
				return nil, nil, err
			}
			return append(decapsulate.EncapsulationKey().Bytes(), public...),
				func(server []byte) ([]byte, error) {
					if len(server) != mlkem.CiphertextSize768+x25519Size {
						return nil, errKexValue
					}
					pq, err := decapsulate.Decapsulate(server[:mlkem.CiphertextSize768])
					if err != nil {
						return nil, err
					}
					classic, err := finish(server[mlkem.CiphertextSize768:])
					return join(pq, classic), err
				}, nil
		},
		answer: func(client []byte) ([]byte, []byte, error) {
			if len(client) != mlkem.EncapsulationKeySize768+x25519Size {
				return nil, nil, errKexValue
			}
			encapsulate, err := mlkem.NewEncapsulationKey768(client[:mlkem.EncapsulationKeySize768])
			if err != nil {
				return nil, nil, err
			}
			pq, ciphertext := encapsulate.Encapsulate()
			public, finish, err := x25519()
			if err != nil {
				return nil, nil, err
			}
			classic, err := finish(client[mlkem.EncapsulationKeySize768:])
			return append(ciphertext, public...), join(pq, classic), err
		},
	}
}
