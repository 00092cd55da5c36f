//go:build !windows

package cli

import "os"

func enableEscapes(*os.File) {}
