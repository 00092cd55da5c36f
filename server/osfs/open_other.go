//go:build !unix

package osfs

const (
	openNonblock  = 0
	openDirectory = 0
)
