package wire

import "encoding/binary"

// UsersGroupsByID asks for the names of many users and groups at once (OpenSSH's PROTOCOL, section
// 4.12, where each list is sent as one string). The answer is [UsersGroupsReply].
type UsersGroupsByID struct{ UIDs, GIDs []uint32 }

// Append appends the packet.
func (m UsersGroupsByID) Append(b []byte, id uint32) []byte {
	start := len(b)
	b = appendExtended(b, id, ExtUsersGroupsByID)
	b = appendUint32s(b, m.UIDs)
	b = appendUint32s(b, m.GIDs)
	return finish(b, start, 0)
}

// Parse parses the payload.
func (m *UsersGroupsByID) Parse(payload []byte) error {
	r := NewReader(payload)
	m.UIDs = r.uint32s()
	m.GIDs = r.uint32s()
	return r.err
}

// UsersGroupsReply is the payload of the EXTENDED_REPLY to [UsersGroupsByID]: a name for each
// number, in order, or "" if there is none.
type UsersGroupsReply struct{ Users, Groups []string }

// Append appends the packet.
func (m UsersGroupsReply) Append(b []byte, id uint32) []byte {
	start := len(b)
	b = appendHeader(b, TypeExtendedReply, id)
	b = appendStrings(b, m.Users)
	b = appendStrings(b, m.Groups)
	return finish(b, start, 0)
}

// Parse parses the payload.
func (m *UsersGroupsReply) Parse(payload []byte) error {
	r := NewReader(payload)
	m.Users = r.strings()
	m.Groups = r.strings()
	return r.err
}

func appendUint32s(b []byte, list []uint32) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(4*len(list)))
	for _, v := range list {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return b
}

func (r *Reader) uint32s() (list []uint32) {
	inner := NewReader(r.Bytes())
	for inner.Len() > 0 {
		list = append(list, inner.Uint32())
	}
	if inner.err != nil {
		r.fail()
	}
	return list
}

func appendStrings(b []byte, list []string) []byte {
	start := len(b)
	b = append(b, 0, 0, 0, 0)
	for _, s := range list {
		b = appendString(b, s)
	}
	return finish(b, start, 0)
}

func (r *Reader) strings() (list []string) {
	inner := NewReader(r.Bytes())
	for inner.Len() > 0 {
		list = append(list, inner.String())
	}
	if inner.err != nil {
		r.fail()
	}
	return list
}
