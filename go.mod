module github.com/usftp/usftp

go 1.26.5

require (
	github.com/kevinburke/ssh_config v1.6.0
	github.com/zeebo/blake3 v0.2.4
	golang.org/x/crypto v0.58.0
	golang.org/x/sys v0.49.0
)

require github.com/klauspost/cpuid/v2 v2.0.12 // indirect
