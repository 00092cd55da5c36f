package stdio_test

import (
	"context"
	"log"

	"github.com/usftp/usftp/server/stdio"
)

// The main function of a program that sshd_config names:
//
//	Subsystem sftp /usr/local/bin/read-only-sftp
func ExampleServe() {
	if err := stdio.Serve(context.Background(), stdio.Config{ReadOnly: true}); err != nil {
		log.Fatal(err)
	}
}
