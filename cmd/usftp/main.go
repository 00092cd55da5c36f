// Command usftp copies files over SSH with SFTP, as fast as the link allows. See `usftp help`.
package main

import (
	"os"

	"github.com/usftp/usftp/cmd/usftp/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:])) }
