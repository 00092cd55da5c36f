// Command usftpd serves files to several users over SFTP. See `usftpd --help`.
package main

import (
	"os"

	"github.com/usftp/usftp/service/internal/daemon"
)

func main() { os.Exit(daemon.Main(os.Args[1:])) }
