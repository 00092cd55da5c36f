package wire

// beneathPackets are those of our own extension; see docs/beneath.md.
func beneathPackets() []packetCase {
	return []packetCase{
		{name: "remove beneath", packet: `
			00 00 00 25
			c8
			01 02 03 04
			00 00 00 0d "beneath@usftp"
			00 00 00 03                # "/t/"
			0d                         # REMOVE
			00 00 00 06 "/t/a/b"`,
			opaque:  10,
			message: &Beneath{Top: 3, Request: TypeRemove, Body: []byte("\x00\x00\x00\x06/t/a/b")}},

		{name: "extended request beneath", packet: `
			00 00 00 22
			c8
			01 02 03 04
			00 00 00 0d "beneath@usftp"
			00 00 00 00                # where relative paths start
			c8                         # EXTENDED
			00 00 00 03 "ext"`,
			opaque:  7,
			message: &Beneath{Request: TypeExtended, Body: []byte("\x00\x00\x00\x03ext")}},
	}
}
