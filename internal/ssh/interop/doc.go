// Package interop contains only tests, which run internal/ssh against other clients and servers,
// with every algorithm and authentication method that both ends support.
package interop
