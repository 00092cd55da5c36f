package ssh

import (
	"bytes"

	xssh "golang.org/x/crypto/ssh"
)

// Messages of RFC 4254.

// channelOpen is CHANNEL_OPEN: section 5.1.
type channelOpen struct {
	kind      string
	sender    uint32
	window    uint32
	maxPacket uint32
	extra     []byte
}

func (c *channelOpen) append(p []byte) []byte {
	p = appendUint32(appendString(append(p, msgChannelOpen), c.kind), c.sender)
	return append(appendUint32(appendUint32(p, c.window), c.maxPacket), c.extra...)
}

func (c *channelOpen) parse(payload []byte) error {
	r := body(payload, msgChannelOpen)
	c.kind, c.sender, c.window, c.maxPacket = r.String(), r.Uint32(), r.Uint32(), r.Uint32()
	c.extra = bytes.Clone(r.Rest())
	return r.parsed()
}

// channelConfirm is CHANNEL_OPEN_CONFIRMATION.
type channelConfirm struct {
	recipient, sender, window, maxPacket uint32
}

func (c *channelConfirm) append(p []byte) []byte {
	p = appendUint32(appendUint32(append(p, msgChannelOpenConfirm), c.recipient), c.sender)
	return appendUint32(appendUint32(p, c.window), c.maxPacket)
}

func (c *channelConfirm) parse(payload []byte) error {
	r := body(payload, msgChannelOpenConfirm)
	c.recipient, c.sender, c.window, c.maxPacket = r.Uint32(), r.Uint32(), r.Uint32(), r.Uint32()
	return r.parsed()
}

func appendOpenFailure(p []byte, recipient uint32, reason xssh.RejectionReason,
	text string) []byte {
	p = appendUint32(appendUint32(append(p, msgChannelOpenFailure), recipient), uint32(reason))
	return appendString(appendString(p, text), "")
}

func parseOpenFailure(payload []byte) (*OpenChannelError, error) {
	r := body(payload, msgChannelOpenFailure)
	r.Uint32() // recipient
	e := &OpenChannelError{Reason: xssh.RejectionReason(r.Uint32()),
		Text: string(cut(r.Bytes(), 1024))}
	return e, r.parsed()
}

// appendAdjust appends WINDOW_ADJUST: section 5.2.
func appendAdjust(p []byte, recipient uint32, n int64) []byte {
	return appendUint32(appendUint32(append(p, msgChannelWindowAdjust), recipient), uint32(n))
}

// channelRequest is CHANNEL_REQUEST: section 5.4.
type channelRequest struct {
	recipient uint32
	kind      string
	wantReply bool
	extra     []byte
}

func (c *channelRequest) append(p []byte) []byte {
	p = appendString(appendUint32(append(p, msgChannelRequest), c.recipient), c.kind)
	return append(appendBool(p, c.wantReply), c.extra...)
}

func (c *channelRequest) parse(payload []byte) error {
	r := body(payload, msgChannelRequest)
	c.recipient, c.kind, c.wantReply = r.Uint32(), r.String(), r.Bool()
	c.extra = bytes.Clone(r.Rest())
	return r.parsed()
}

// globalRequest is GLOBAL_REQUEST: section 4.
type globalRequest struct {
	kind      string
	wantReply bool
	extra     []byte
}

func (g *globalRequest) append(p []byte) []byte {
	return append(appendBool(appendString(append(p, msgGlobalRequest), g.kind), g.wantReply),
		g.extra...)
}

func (g *globalRequest) parse(payload []byte) error {
	r := body(payload, msgGlobalRequest)
	g.kind, g.wantReply = r.String(), r.Bool()
	g.extra = r.Rest()
	return r.parsed()
}

// channelID reads the channel number with which the other channel messages begin.
func channelID(payload []byte) (id uint32, rest []byte, err error) {
	if len(payload) < 5 {
		return 0, nil, &ProtocolError{"a channel message is truncated"}
	}
	return length(payload[1:]), payload[5:], nil
}

// channelData reads the string that makes up the rest of CHANNEL_DATA and CHANNEL_EXTENDED_DATA.
func channelData(rest []byte) ([]byte, error) {
	if len(rest) < lengthSize || uint64(length(rest)) != uint64(len(rest)-lengthSize) {
		return nil, &ProtocolError{"channel data with a wrong length"}
	}
	return rest[lengthSize:], nil
}
