package keyfile

import (
	"bytes"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"math/big"
)

// Keys of elliptic curves may spell out their curve instead of naming it, as Java's and old
// OpenSSL's do. If it is one of SSH's curves, number for number, the name is put in, and the
// standard library reads the key.

// ecPrivateKey is ECPrivateKey: RFC 5915.
type ecPrivateKey struct {
	Version int
	Key     []byte
	Curve   asn1.RawValue `asn1:"optional,explicit,tag:0"`
}

// namedPrivateKey is an ecPrivateKey with the curve's name.
type namedPrivateKey struct {
	Version int
	Key     []byte
	Curve   asn1.ObjectIdentifier `asn1:"explicit,tag:0"`
}

// spelledCurve is SpecifiedECDomain: SEC 1, appendix C.2.
type spelledCurve struct {
	Version int
	Field   struct {
		Kind  asn1.ObjectIdentifier
		Prime *big.Int
	}
	Curve struct {
		A, B []byte
		Seed asn1.BitString `asn1:"optional"`
	}
	Base     []byte
	Order    *big.Int
	Cofactor *big.Int `asn1:"optional"`
}

var curves = []struct {
	curve elliptic.Curve
	oid   asn1.ObjectIdentifier
}{
	{elliptic.P256(), asn1.ObjectIdentifier{1, 2, 840, 10045, 3, 1, 7}},
	{elliptic.P384(), asn1.ObjectIdentifier{1, 3, 132, 0, 34}},
	{elliptic.P521(), asn1.ObjectIdentifier{1, 3, 132, 0, 35}},
}

var errCurve = errors.New("curve is not one of SSH's (nistp256, nistp384 and nistp521)")

// curveName returns the name of a curve that is spelled out.
func curveName(der []byte) (asn1.ObjectIdentifier, error) {
	var s spelledCurve
	if _, err := asn1.Unmarshal(der, &s); err != nil {
		return nil, errCurve
	}
	for _, c := range curves {
		p := c.curve.Params()
		size := (p.BitSize + 7) / 8
		x, y := p.Gx.FillBytes(make([]byte, size)), p.Gy.FillBytes(make([]byte, size))
		whole := append(append([]byte{4}, x...), y...)
		short := append([]byte{2 | y[size-1]&1}, x...)
		a := new(big.Int).Sub(p.P, big.NewInt(3))
		if s.Field.Prime.Cmp(p.P) == 0 && s.Order.Cmp(p.N) == 0 &&
			new(big.Int).SetBytes(s.Curve.A).Cmp(a) == 0 &&
			new(big.Int).SetBytes(s.Curve.B).Cmp(p.B) == 0 &&
			(bytes.Equal(s.Base, whole) || bytes.Equal(s.Base, short)) {
			return c.oid, nil
		}
	}
	return nil, errCurve
}

// parseEC parses a key in SEC 1's form.
func parseEC(der []byte) (any, error) {
	key, err := x509.ParseECPrivateKey(der)
	if err == nil {
		return key, nil
	}
	var k ecPrivateKey
	if _, e := asn1.Unmarshal(der, &k); e != nil || len(k.Curve.Bytes) == 0 {
		return nil, err
	}
	return withCurve(k.Key, k.Curve.Bytes)
}

// parseExplicit parses a PKCS #8 key that the standard library rejected with err.
func parseExplicit(der []byte, err error) (any, error) {
	var info struct {
		Version   int
		Algorithm struct {
			ID     asn1.ObjectIdentifier
			Params asn1.RawValue
		}
		Key []byte
	}
	var k ecPrivateKey
	if _, e := asn1.Unmarshal(der, &info); e != nil ||
		!info.Algorithm.ID.Equal(asn1.ObjectIdentifier{1, 2, 840, 10045, 2, 1}) {
		return nil, err
	}
	if _, e := asn1.Unmarshal(info.Key, &k); e != nil {
		return nil, err
	}
	return withCurve(k.Key, info.Algorithm.Params.FullBytes)
}

func withCurve(key, spelled []byte) (any, error) {
	name, err := curveName(spelled)
	if err != nil {
		return nil, err
	}
	der, err := asn1.Marshal(namedPrivateKey{1, key, name})
	if err != nil {
		return nil, err
	}
	return x509.ParseECPrivateKey(der)
}
