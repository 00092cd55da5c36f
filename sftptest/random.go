package sftptest

import (
	"math/rand/v2"
	"time"

	"github.com/usftp/usftp/wire"
)

// RandomLink returns a link with some delay, rate and splitting; the same one for the same seed.
func RandomLink(seed uint64) LinkConfig {
	rng := rand.New(rand.NewPCG(seed, 1))
	c := LinkConfig{
		ToServer: time.Duration(rng.IntN(200)) * time.Millisecond,
		ToClient: time.Duration(rng.IntN(200)) * time.Millisecond,
	}
	if rng.IntN(2) == 0 {
		c.MaxPiece, c.Seed = 1<<rng.IntN(17), seed+1
	}
	if rng.IntN(3) == 0 {
		c.Window = 64<<10 + rng.IntN(2<<20)
	}
	if rng.IntN(3) == 0 {
		c.RateBytesPerSec = 1 << (16 + rng.IntN(12))
	}
	return c
}

// RandomScript returns an unusual server on which all features that a client may rely on work: it
// sends short, reordered replies, without messages, in large or small packets, with few extensions.
// It is the same one for the same seed.
func RandomScript(seed uint64) Script {
	rng := rand.New(rand.NewPCG(seed, 2))
	s := Script{Seed: seed}
	some := func() bool { return rng.IntN(3) == 0 }
	if some() {
		s.ShortReads = 1 + rng.IntN(64<<10)
	}
	if some() {
		s.RandomReads = true
	}
	if some() {
		s.Reorder = 2 + rng.IntN(40)
	}
	if some() {
		s.ReaddirNames = 1 + rng.IntN(2000)
	}
	if some() {
		s.Work = time.Duration(rng.IntN(2000)) * time.Microsecond
	}
	if some() {
		s.Home = "/home/user"
	}
	if some() {
		s.HandleSize = 4 + rng.IntN(wire.MaxHandle-3)
	}
	s.NoMessages, s.BareStatus, s.RichCodes = some(), some(), some()
	if some() {
		s.HideAttrs = []uint32{wire.AttrUIDGID, wire.AttrACModTime,
			wire.AttrPermissions}[rng.IntN(3)]
	}
	if some() {
		s.Limits = &wire.LimitsReply{MaxPacket: 34000, MaxRead: 32 << 10, MaxWrite: 32 << 10,
			MaxOpenHandles: uint64(rng.IntN(2) * 100)}
	}
	if some() {
		s.Extensions = []wire.ExtensionPair{}
		for _, e := range OpenSSHExtensions() {
			if rng.IntN(2) == 0 {
				s.Extensions = append(s.Extensions, e)
			}
		}
	}
	return s
}

// RandomFault returns a fault that hits one or a few requests; the same one for the same seed. A
// client handles it well if the call fails, or succeeds anyway, within its time; it must not hang,
// panic, or accept wrong data. No fault makes data wrong without any sign.
func RandomFault(seed uint64) Fault {
	rng := rand.New(rand.NewPCG(seed, 3))
	types := []wire.Type{wire.TypeOpen, wire.TypeClose, wire.TypeRead, wire.TypeWrite,
		wire.TypeFstat, wire.TypeStat,
		wire.TypeLstat, wire.TypeOpendir, wire.TypeReaddir, wire.TypeFsetstat, wire.TypeRename,
		wire.TypeExtended, 0}
	f := Fault{On: types[rng.IntN(len(types))], Times: 1 + rng.IntN(2)}
	if rng.IntN(2) == 0 {
		f.Skip = rng.IntN(20)
	}
	actions := []func() Action{
		func() Action { return Refuse(wire.Failure, "Failure") },
		func() Action { return Refuse(wire.PermissionDenied, "") },
		func() Action { return Refuse(wire.Code(rng.Uint32()), "a code nobody knows") },
		func() Action { return Fail(wire.Failure, "Failure") },
		func() Action { return ReplyType(wire.Type(rng.IntN(256))) },
		func() Action { return ReplyType([]wire.Type{wire.TypeData, wire.TypeName}[rng.IntN(2)]) },
		Drop, Silence, Hangup, LastReply, UnknownID, Repeat,
		func() Action { return Truncate(rng.IntN(30)) },
		func() Action { return Length(rng.Uint32() >> rng.IntN(32)) },
		func() Action { return Delay(time.Duration(rng.IntN(5000)) * time.Millisecond) },
	}
	f.Do = actions[rng.IntN(len(actions))]()
	return f
}
