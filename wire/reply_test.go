package wire

// attrsPackets are ATTRS packets with each flag of draft-02, section 5.
func attrsPackets() []packetCase {
	return []packetCase{
		{name: "ATTRS without any", packet: `
			00 00 00 09
			69           # SSH_FXP_ATTRS
			01 02 03 04
			00 00 00 00`,
			message: &AttrsReply{}},

		{name: "ATTRS with SIZE",
			packet:  `00 00 00 11 69 01 02 03 04 00 00 00 01 01 23 45 67 89 ab cd ef`,
			message: &AttrsReply{Attrs{Flags: AttrSize, Size: 0x0123456789abcdef}}},
		{name: "ATTRS with UIDGID",
			packet:  `00 00 00 11 69 01 02 03 04 00 00 00 02 00 00 03 e8 ff ff ff fe`,
			message: &AttrsReply{Attrs{Flags: AttrUIDGID, UID: 1000, GID: 0xfffffffe}}},
		{name: "ATTRS with PERMISSIONS",
			packet:  `00 00 00 0d 69 01 02 03 04 00 00 00 04 00 00 41 ed`,
			message: &AttrsReply{Attrs{Flags: AttrPermissions, Permissions: 0o40755}}},
		{name: "ATTRS with ACMODTIME",
			packet:  `00 00 00 11 69 01 02 03 04 00 00 00 08 00 00 00 01 ff ff ff ff`,
			message: &AttrsReply{Attrs{Flags: AttrACModTime, ATime: 1, MTime: 0xffffffff}}},

		{name: "ATTRS with EXTENDED and no pair",
			packet:  `00 00 00 0d 69 01 02 03 04 80 00 00 00 00 00 00 00`,
			message: &AttrsReply{Attrs{Flags: AttrExtended}}},

		{name: "ATTRS with EXTENDED and two pairs", packet: `
			00 00 00 25
			69
			01 02 03 04
			80 00 00 00
			00 00 00 02  # extended_count
			00 00 00 03 "a@b" 00 00 00 02 00 ff
			00 00 00 03 "c@d" 00 00 00 00`,
			message: &AttrsReply{Attrs{Flags: AttrExtended,
				Extended: []ExtensionPair{{"a@b", "\x00\xff"}, {"c@d", ""}}}}},

		{name: "ATTRS with everything", packet: `
			00 00 00 33
			69
			01 02 03 04
			80 00 00 0f
			00 00 00 00 00 00 00 2a  # size
			00 00 00 01              # uid
			00 00 00 02              # gid
			00 00 81 a4              # permissions
			00 00 00 03              # atime
			00 00 00 04              # mtime
			00 00 00 01              # extended_count
			00 00 00 01 "x"
			00 00 00 01 "y"`,
			message: &AttrsReply{Attrs{
				Flags: AttrSize | AttrUIDGID | AttrPermissions | AttrACModTime | AttrExtended,
				Size:  42, UID: 1, GID: 2, Permissions: 0o100644, ATime: 3, MTime: 4,
				Extended: []ExtensionPair{{"x", "y"}}}}},

		{name: "ATTRS with a flag that nobody defined",
			packet: `00 00 00 0d 69 01 02 03 04 40 00 00 04 00 00 81 a4`,
			message: &AttrsReply{Attrs{Flags: 0x40000000 | AttrPermissions,
				Permissions: 0o100644}}},
	}
}

// replyPackets are the other answers of draft-02, sections 4 and 7.
func replyPackets() []packetCase {
	return []packetCase{
		{name: "VERSION", packet: `
			00 00 00 05
			02           # SSH_FXP_VERSION
			00 00 00 03`,
			message: &initReplyPacket{InitReply{Version: 3}}},

		{name: "VERSION with extensions", packet: `
			00 00 00 3c
			02
			00 00 00 03
			00 00 00 13 "statvfs@openssh.com"
			00 00 00 01 "2"
			00 00 00 09 "copy-data"
			00 00 00 01 "1"
			00 00 00 01 "e"
			00 00 00 00  # extension_data may be empty`,
			message: &initReplyPacket{InitReply{Version: 3,
				Extensions: []ExtensionPair{{ExtStatVFS, "2"}, {ExtCopyData, "1"}, {"e", ""}}}},
			mayEndAt: []int{4, 32, 50}},

		{name: "STATUS", packet: `
			00 00 00 1f
			65           # SSH_FXP_STATUS
			01 02 03 04
			00 00 00 02  # SSH_FX_NO_SUCH_FILE
			00 00 00 0c "No such file"
			00 00 00 02 "en"`,
			message:  &Status{Code: NoSuchFile, Message: "No such file", Language: "en"},
			mayEndAt: []int{4, 20}},

		{name: "STATUS with empty strings",
			packet:   `00 00 00 11 65 01 02 03 04 00 00 00 00 00 00 00 00 00 00 00 00`,
			message:  &Status{},
			mayEndAt: []int{4, 8}},

		{name: "HANDLE", packet: `
			00 00 00 0d
			66           # SSH_FXP_HANDLE
			01 02 03 04
			00 00 00 04 00 ff 80 0a`,
			message: &Handle{[]byte{0, 0xff, 0x80, 0x0a}}},
		{name: "HANDLE of no bytes", packet: `00 00 00 09 66 01 02 03 04 00 00 00 00`,
			message: &Handle{[]byte{}}},

		{name: "DATA", packet: `
			00 00 00 0e
			67           # SSH_FXP_DATA
			01 02 03 04
			00 00 00 05 "hello"`,
			message: &Data{[]byte("hello")}},
		{name: "DATA of nothing", packet: `00 00 00 09 67 01 02 03 04 00 00 00 00`,
			message: &Data{[]byte{}}},

		{name: "NAME without entries", packet: `
			00 00 00 09
			68           # SSH_FXP_NAME
			01 02 03 04
			00 00 00 00`,
			message: &Names{}},

		{name: "NAME with one entry, as for REALPATH", packet: `
			00 00 00 1f
			68
			01 02 03 04
			00 00 00 01
			00 00 00 05 "/home" 00 00 00 05 "/home" 00 00 00 00`,
			message: &Names{[]Name{{Filename: "/home", LongName: "/home"}}}},

		{name: "NAME with two entries", packet: `
			00 00 00 3b
			68
			01 02 03 04
			00 00 00 02
			00 00 00 01 "a"
			00 00 00 0c "-rw-r--r-- a"
			00 00 00 05              # SIZE PERMISSIONS
			00 00 00 00 00 00 00 07
			00 00 81 a4
			00 00 00 01 "b"
			00 00 00 00
			00 00 00 00`,
			message: &Names{[]Name{
				{Filename: "a", LongName: "-rw-r--r-- a",
					Attrs: Attrs{Flags: AttrSize | AttrPermissions, Size: 7,
						Permissions: 0o100644}},
				{Filename: "b"},
			}}},
	}
}
