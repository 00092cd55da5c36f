module github.com/usftp/usftp

go 1.26.5
