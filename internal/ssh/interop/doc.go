// Package interop has no code: its tests have internal/ssh talk to other people's clients and
// servers, under every algorithm and method of authentication that both ends have.
package interop
