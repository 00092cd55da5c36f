package wire_test

import (
	"fmt"

	"github.com/usftp/usftp/wire"
)

// A client asks for a file's attributes.
func ExamplePathRequest_Append() {
	var buf []byte // kept from one packet to the next
	buf = wire.PathRequest{Type: wire.TypeStat, Path: "/etc/motd"}.Append(buf[:0], 7)
	fmt.Printf("% x\n", buf)
	// Output:
	// 00 00 00 12 11 00 00 00 07 00 00 00 09 2f 65 74 63 2f 6d 6f 74 64
}

// A client takes the answer to a READ: data, or the reason why there is none.
func ExampleParseHeader() {
	received := wire.Status{Code: wire.EOF, Message: "End of file"}.Append(nil, 7)

	kind, id, body, err := wire.ParseHeader(received[wire.LengthSize:])
	if err != nil {
		fmt.Println(err)
		return
	}
	switch kind {
	case wire.TypeData:
		var data wire.Data
		if err = data.Parse(body); err == nil {
			fmt.Printf("request %d: %d bytes\n", id, len(data.Data))
		}
	case wire.TypeStatus:
		var status wire.Status
		if err = status.Parse(body); err == nil {
			fmt.Printf("request %d: %v\n", id, status.Code)
		}
	default:
		err = fmt.Errorf("request %d: %v is no answer to READ", id, kind)
	}
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// request 7: end of file
}

// A server takes an extended request: first the name, which says how to parse the payload.
func ExampleExtended_Parse() {
	received := wire.PosixRename{OldPath: "upload.part", NewPath: "upload"}.Append(nil, 7)

	_, _, body, err := wire.ParseHeader(received[wire.LengthSize:])
	if err != nil {
		fmt.Println(err)
		return
	}
	var request wire.Extended
	if err := request.Parse(body); err != nil {
		fmt.Println(err)
		return
	}
	switch request.Name {
	case wire.ExtPosixRename:
		var rename wire.PosixRename
		if err := rename.Parse(request.Payload); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("rename", rename.OldPath, "to", rename.NewPath)
	default:
		fmt.Println(wire.OpUnsupported)
	}
	// Output:
	// rename upload.part to upload
}
