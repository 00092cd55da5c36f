package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"slices"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/transfer"
)

// What a host has is compared with a list as sha256sum makes it. Nothing is copied: this host
// hashes its files itself.
func ExampleCheck() {
	host, disconnect := connectToExample()
	defer disconnect()
	for name, text := range map[string]string{"/one": "1\n", "/two": "2 \n", "/new": ""} {
		if err := putText(host.Client, name, text); err != nil {
			log.Fatal(err)
		}
	}
	sums := filepath.Join(os.TempDir(), "usftp-example-sums")
	os.WriteFile(sums, []byte(`4355a46b19d348dc2f57c046f8ef63d4538ebb936000f3c9ee954a27460dd865  one
53c234e5e8472b6ac51c1ae1cab3fe06fad053beb8ebfd8977b010655bfdd3c3  two
1121cfccd5913f0a63fec40a6ffd44ea64f9dc135c66634ba001d10bcf4302a2  three
`), 0o644)
	defer os.Remove(sums)
	list, err := transfer.OpenList(sums, transfer.SHA256)
	if err != nil {
		log.Fatal(err)
	}
	defer list.Close()

	var lines []string
	check := transfer.Check{Host: host, Dir: "/", List: list,
		Options: transfer.Options{Events: func(e transfer.Event) {
			switch {
			case e.Kind == transfer.Done:
				lines = append(lines, e.Name+" is right, by "+string(e.Verified))
			case e.Kind == transfer.Skipped:
				lines = append(lines, e.Name+" is not in the list")
			case e.Kind == transfer.Failed && errors.Is(e.Err, fs.ErrNotExist):
				lines = append(lines, e.Name+" is missing")
			case e.Kind == transfer.Failed:
				lines = append(lines, e.Name+" differs")
			}
		}}}
	summary, err := check.Run(context.Background())
	slices.Sort(lines)
	for _, line := range lines {
		fmt.Println(line)
	}
	fmt.Println(summary.Files, "of", list.Len(), "are right:", errors.Is(err, transfer.ErrList))
	// Output:
	// new is not in the list
	// one is right, by hash
	// three is missing
	// two differs
	// 1 of 3 are right: true
}

func putText(client *usftp.Client, name, text string) error {
	f, err := client.Create(name)
	if err != nil {
		return err
	}
	_, err = f.Write([]byte(text))
	return errors.Join(err, f.Close())
}
