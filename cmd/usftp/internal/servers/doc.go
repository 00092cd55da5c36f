// Package servers contains only tests, which run the command against other programs' servers, each
// with the same steps. docs/hosts.md has the results.
package servers
