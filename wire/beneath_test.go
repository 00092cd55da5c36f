package wire

// beneathPackets are those of our own extension; see docs/beneath.md.
func beneathPackets() []packetCase {
	return []packetCase{
		{name: "remove beneath", packet: `
			00 00 00 24
			c8
			01 02 03 04
			00 00 00 0d "beneath@usftp"
			0d                         # REMOVE
			00 00 00 02 "/t"
			00 00 00 03 "a/b"`,
			message: &Beneath{Request: TypeRemove, Top: "/t", Path: "a/b"}},

		{name: "rename beneath", packet: `
			00 00 00 29
			c8
			01 02 03 04
			00 00 00 0d "beneath@usftp"
			12                         # RENAME
			00 00 00 01 "t"
			00 00 00 03 "a/b"
			00 00 00 02 ".c"`,
			message: &Beneath{Request: TypeRename, Top: "t", Path: "a/b", NewPath: ".c"}},
	}
}
