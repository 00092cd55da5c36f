module github.com/usftp/usftp/bench

go 1.26.5

require (
	github.com/pkg/sftp v1.13.12
	github.com/usftp/usftp v0.0.0-00010101000000-000000000000
	github.com/zeebo/blake3 v0.2.4
	golang.org/x/crypto v0.58.0
	golang.org/x/sys v0.49.0
)

require (
	github.com/dchest/bcrypt_pbkdf v0.0.0-20150205184540-83f37f9c154a // indirect
	github.com/kevinburke/ssh_config v1.6.0 // indirect
	github.com/klauspost/compress v1.20.4 // indirect
	github.com/klauspost/cpuid/v2 v2.0.12 // indirect
	github.com/kr/fs v0.1.0 // indirect
	golang.org/x/net v0.61.0 // indirect
)

replace github.com/usftp/usftp => ../
