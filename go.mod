module github.com/usftp/usftp

go 1.26.5

require (
	golang.org/x/crypto v0.58.0
	golang.org/x/sys v0.49.0
)
