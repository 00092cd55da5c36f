package ssh

import (
	"bytes"
	"crypto/ecdh"
	"crypto/mlkem"
	"crypto/rand"
	"crypto/sha256"
	"slices"
)

// pointExchange is a method with one message in each direction: INIT with the client's public
// value, REPLY with the host key, the server's public value, and the signature. RFC 5656, section
// 4.
type pointExchange struct {
	// begin makes the client's public value; finish derives the secret from the server's.
	begin  func() (public []byte, finish func(server []byte) (secret []byte, err error), err error)
	answer func(client []byte) (public, secret []byte, err error)
}

var errKexValue = &ProtocolError{"invalid public value in the key exchange"}

func (x *pointExchange) client(t *transport) (*kexReply, *kexResult, error) {
	public, finish, err := x.begin()
	if err != nil {
		return nil, nil, err
	}
	if err := t.out.urgent(appendString([]byte{msgKexInitial}, public)); err != nil {
		return nil, nil, err
	}
	payload, err := t.kexMessage(msgKexReply)
	if err != nil {
		return nil, nil, err
	}
	reply, server, err := parseKexReply(payload, msgKexReply)
	if err != nil {
		return nil, nil, err
	}
	secret, err := finish(server)
	if err != nil {
		return nil, nil, errKexValue
	}
	return reply, &kexResult{secret: secret,
		public: appendString(appendString(nil, public), server)}, nil
}

func (x *pointExchange) server(t *transport,
	sign func(*kexResult) (*kexReply, error)) (*kexResult, error) {
	payload, err := t.kexMessage(msgKexInitial)
	if err != nil {
		return nil, err
	}
	client, err := parseKexValue(payload, msgKexInitial)
	if err != nil {
		return nil, err
	}
	public, secret, err := x.answer(client)
	if err != nil {
		return nil, errKexValue
	}
	result := &kexResult{secret: secret, public: appendString(appendString(nil, client), public)}
	reply, err := sign(result)
	if err != nil {
		return nil, err
	}
	return result, t.out.stageOnly(appendKexReply(nil, msgKexReply, reply, public))
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

// newCurve uses crypto/ecdh, which checks that points lie on the curve, and that X25519's result is
// not zero (RFC 8731, section 3).
func newCurve(curve ecdh.Curve) kexMethod {
	agree := func(private *ecdh.PrivateKey, peer []byte) ([]byte, error) {
		public, err := curve.NewPublicKey(peer)
		if err != nil {
			return nil, err
		}
		secret, err := private.ECDH(public)
		if err != nil {
			return nil, err
		}
		return appendMPInt(nil, secret), nil
	}
	return &pointExchange{
		begin: func() ([]byte, func([]byte) ([]byte, error), error) {
			private, err := curve.GenerateKey(rand.Reader)
			if err != nil {
				return nil, nil, err
			}
			return private.PublicKey().Bytes(),
				func(server []byte) ([]byte, error) { return agree(private, server) }, nil
		},
		answer: func(client []byte) ([]byte, []byte, error) {
			private, err := curve.GenerateKey(rand.Reader)
			if err != nil {
				return nil, nil, err
			}
			secret, err := agree(private, client)
			return private.PublicKey().Bytes(), secret, err
		},
	}
}

func newX25519() kexMethod { return newCurve(ecdh.X25519()) }
func newP256() kexMethod   { return newCurve(ecdh.P256()) }
func newP384() kexMethod   { return newCurve(ecdh.P384()) }
func newP521() kexMethod   { return newCurve(ecdh.P521()) }

const x25519Size = 32

// newMLKEM returns the method of draft-ietf-sshm-mlkem-hybrid-kex: each message has ML-KEM's value
// followed by X25519's, and the secret is a hash of both, encoded as a string.
func newMLKEM() kexMethod {
	x := ecdh.X25519()
	join := func(pq, classic []byte) []byte {
		sum := sha256.Sum256(slices.Concat(pq, classic))
		return appendString(nil, sum[:])
	}
	return &pointExchange{
		begin: func() ([]byte, func([]byte) ([]byte, error), error) {
			decapsulate, err := mlkem.GenerateKey768()
			if err != nil {
				return nil, nil, err
			}
			private, err := x.GenerateKey(rand.Reader)
			if err != nil {
				return nil, nil, err
			}
			public := append(decapsulate.EncapsulationKey().Bytes(),
				private.PublicKey().Bytes()...)
			return public, func(server []byte) ([]byte, error) {
				if len(server) != mlkem.CiphertextSize768+x25519Size {
					return nil, errKexValue
				}
				pq, err := decapsulate.Decapsulate(server[:mlkem.CiphertextSize768])
				if err != nil {
					return nil, err
				}
				peer, err := x.NewPublicKey(server[mlkem.CiphertextSize768:])
				if err != nil {
					return nil, err
				}
				classic, err := private.ECDH(peer)
				if err != nil {
					return nil, err
				}
				return join(pq, classic), nil
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
			private, err := x.GenerateKey(rand.Reader)
			if err != nil {
				return nil, nil, err
			}
			peer, err := x.NewPublicKey(client[mlkem.EncapsulationKeySize768:])
			if err != nil {
				return nil, nil, err
			}
			classic, err := private.ECDH(peer)
			if err != nil {
				return nil, nil, err
			}
			return append(ciphertext, private.PublicKey().Bytes()...), join(pq, classic), nil
		},
	}
}
