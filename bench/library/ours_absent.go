//go:build !ours

package library

func ours() []Library { return nil }
