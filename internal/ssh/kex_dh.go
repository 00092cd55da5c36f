package ssh

import (
	"bytes"
	"crypto/rand"
	"math/big"
)

// The groups of RFC 3526, of 2048 and 4096 bits; both have the generator 2.
const (
	group14Prime = "FFFFFFFFFFFFFFFFC90FDAA22168C234C4C6628B80DC1CD129024E088A67CC74020BBEA63B139B22514A08798E3404DDEF9519B3CD3A431B302B0A6DF25F14374FE1356D6D51C245E485B576625E7EC6F44C42E9A637ED6B0BFF5CB6F406B7EDEE386BFB5A899FA5AE9F24117C4B1FE649286651ECE45B3DC2007CB8A163BF0598DA48361C55D39A69163FA8FD24CF5F83655D23DCA3AD961C62F356208552BB9ED529077096966D670C354E4ABC9804F1746C08CA18217C32905E462E36CE3BE39E772C180E86039B2783A2EC07A28FB5C55DF06F4C52C9DE2BCBF6955817183995497CEA956AE515D2261898FA051015728E5A8AACAA68FFFFFFFFFFFFFFFF"
	group16Prime = "FFFFFFFFFFFFFFFFC90FDAA22168C234C4C6628B80DC1CD129024E088A67CC74020BBEA63B139B22514A08798E3404DDEF9519B3CD3A431B302B0A6DF25F14374FE1356D6D51C245E485B576625E7EC6F44C42E9A637ED6B0BFF5CB6F406B7EDEE386BFB5A899FA5AE9F24117C4B1FE649286651ECE45B3DC2007CB8A163BF0598DA48361C55D39A69163FA8FD24CF5F83655D23DCA3AD961C62F356208552BB9ED529077096966D670C354E4ABC9804F1746C08CA18217C32905E462E36CE3BE39E772C180E86039B2783A2EC07A28FB5C55DF06F4C52C9DE2BCBF6955817183995497CEA956AE515D2261898FA051015728E5A8AAAC42DAD33170D04507A33A85521ABDF1CBA64ECFB850458DBEF0A8AEA71575D060C7DB3970F85A6E1E4C7ABF5AE8CDB0933D71E8C94E04A25619DCEE3D2261AD2EE6BF12FFA06D98A0864D87602733EC86A64521F2B18177B200CBBE117577A615D6C770988C0BAD946E208E24FA074E5AB3143DB5BFCE0FD108E4B82D120A92108011A723C12A787E6D788719A10BDBA5B2699C327186AF4E23C1A946834B6150BDA2583E9CA2AD44CE8DBBBC2DB04DE8EF92E8EFC141FBECAA6287C59474E6BC05D99B2964FA090C3A2233BA186515BE7ED1F612970CEE2D7AFB81BDD762170481CD0069127D5B05AA993B4EA988D8FDDC186FFB7DC90A6C08F4DF435C934063199FFFFFFFFFFFFFFFF"
)

var two = big.NewInt(2)

func prime(hex string) *big.Int {
	p, ok := new(big.Int).SetString(hex, 16)
	if !ok {
		panic("ssh: not a hexadecimal number: " + hex)
	}
	return p
}

func newGroup14() kexMethod { return symmetric(field(prime(group14Prime), two)) }
func newGroup16() kexMethod { return symmetric(field(prime(group16Prime), two)) }

// field is Diffie-Hellman over a finite field: RFC 4253, section 8, and RFC 8268.
func field(p, g *big.Int) begin {
	// Values outside 2 to p-2 are refused: RFC 4253, section 8.
	last := new(big.Int).Sub(p, big.NewInt(1))
	valid := func(n *big.Int) bool { return n.Cmp(two) >= 0 && n.Cmp(last) < 0 }
	return func() ([]byte, func([]byte) ([]byte, error), error) {
		x, err := exponent(p)
		if err != nil {
			return nil, nil, err
		}
		public := appendMPInt(nil, new(big.Int).Exp(g, x, p).Bytes())[lengthSize:]
		return public, func(peer []byte) ([]byte, error) {
			y := new(big.Int).SetBytes(peer)
			if len(peer) > 0 && peer[0]&0x80 != 0 || !valid(y) {
				return nil, errKexValue
			}
			secret := new(big.Int).Exp(y, x, p)
			if !valid(secret) {
				return nil, errKexValue
			}
			return secret.Bytes(), nil
		}, nil
	}
}

// exponent returns a number half as long as p, which exceeds the strength that the group needs.
func exponent(p *big.Int) (*big.Int, error) {
	most := new(big.Int).Rsh(p, uint(p.BitLen()/2)-1)
	for {
		x, err := rand.Int(rand.Reader, most)
		if err != nil || x.BitLen() > p.BitLen()/4 {
			return x, err
		}
	}
}

// groupExchange lets the server choose the group: RFC 4419.
type groupExchange struct{}

func newGroupExchange() kexMethod { return groupExchange{} }

// The group sizes that we request and accept: RFC 8270 requires at least 2048 bits.
const (
	groupMin  = 2048
	groupBest = 4096
	groupMax  = 8192
)

func (groupExchange) client(t *transport) (*kexReply, *kexResult, error) {
	request := appendUint32(appendUint32(appendUint32(nil, groupMin), groupBest), groupMax)
	if err := t.out.urgent(append([]byte{msgKexGEXRequest}, request...)); err != nil {
		return nil, nil, err
	}
	payload, err := t.kexMessage(msgKexGEXGroup)
	if err != nil {
		return nil, nil, err
	}
	p, g, err := parseGroup(payload)
	if err != nil {
		return nil, nil, err
	}
	return groupOf(p, g, request).client(t)
}

func groupOf(p, g *big.Int, request []byte) *valueExchange {
	x := symmetric(field(p, g))
	x.init, x.reply = msgKexGEXInit, msgKexGEXReply
	x.before = appendMPInt(appendMPInt(bytes.Clone(request), p.Bytes()), g.Bytes())
	return x
}

// parseGroup refuses useless generators, and groups that are too small, or so large that they only
// cost time.
func parseGroup(payload []byte) (p, g *big.Int, err error) {
	r := body(payload, msgKexGEXGroup)
	first, second := r.Bytes(), r.Bytes()
	if err := r.whole(); err != nil {
		return nil, nil, err
	}
	if len(first) > groupMax/8+1 || len(second) > groupMax/8+1 {
		return nil, nil, errKexValue
	}
	p, g = new(big.Int).SetBytes(first), new(big.Int).SetBytes(second)
	// The exchange hash covers the numbers as we encode them, and RFC 4251, section 5, allows only
	// one encoding.
	if !bytes.Equal(appendMPInt(nil, p.Bytes())[lengthSize:], first) ||
		!bytes.Equal(appendMPInt(nil, g.Bytes())[lengthSize:], second) {
		return nil, nil, errKexValue
	}
	last := new(big.Int).Sub(p, big.NewInt(1))
	if p.BitLen() < groupMin || p.BitLen() > groupMax || p.Bit(0) == 0 || g.Cmp(two) < 0 ||
		g.Cmp(last) >= 0 {
		return nil, nil, errKexValue
	}
	return p, g, nil
}

func (groupExchange) server(t *transport,
	sign func(*kexResult) (*kexReply, error)) (*kexResult, error) {
	payload, err := t.kexMessage(msgKexGEXRequest)
	if err != nil {
		return nil, err
	}
	r := body(payload, msgKexGEXRequest)
	request := bytes.Clone(r.Rest())
	least, best, most := r.Uint32(), r.Uint32(), r.Uint32()
	if err := r.whole(); err != nil {
		return nil, err
	}
	p := prime(group16Prime)
	if best < 3072 && least <= 2048 || most < 4096 {
		p = prime(group14Prime)
	}
	if bits := uint32(p.BitLen()); bits < least || bits > most {
		return nil, &ProtocolError{"no group of the requested size"}
	}
	group := appendMPInt(appendMPInt([]byte{msgKexGEXGroup}, p.Bytes()), two.Bytes())
	if err := t.out.urgent(group); err != nil {
		return nil, err
	}
	return groupOf(p, two, request[:12]).server(t, sign)
}
