package wire

import "encoding/binary"

// Init opens the conversation (draft-02, section 4).
type Init struct {
	Version    uint32
	Extensions []ExtensionPair
}

// InitReply is the VERSION packet, the server's answer to INIT, with the extensions that it offers
// (draft-02, section 4).
type InitReply struct {
	Version    uint32
	Extensions []ExtensionPair
}

// Append appends the packet; INIT has no request id.
func (m Init) Append(b []byte) []byte {
	return appendVersion(b, TypeInit, m.Version, m.Extensions)
}

// Parse parses the packet's body.
func (m *Init) Parse(body []byte) (err error) {
	m.Version, m.Extensions, err = parseVersion(body)
	return err
}

// Append appends the packet; VERSION has no request id.
func (m InitReply) Append(b []byte) []byte {
	return appendVersion(b, TypeVersion, m.Version, m.Extensions)
}

// Parse parses the packet's body.
func (m *InitReply) Parse(body []byte) (err error) {
	m.Version, m.Extensions, err = parseVersion(body)
	return err
}

func appendVersion(b []byte, t Type, version uint32, extensions []ExtensionPair) []byte {
	start := len(b)
	b = append(b, 0, 0, 0, 0, byte(t))
	b = binary.BigEndian.AppendUint32(b, version)
	for _, e := range extensions {
		b = appendString(b, e.Name)
		b = appendString(b, e.Data)
	}
	return finish(b, start, 0)
}

func parseVersion(body []byte) (version uint32, extensions []ExtensionPair, err error) {
	r := NewReader(body)
	version = r.Uint32()
	for r.Len() > 0 {
		extensions = append(extensions, ExtensionPair{Name: r.String(), Data: r.String()})
	}
	return version, extensions, r.err
}
