package checksum_test

import (
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/usftp/usftp/checksum"
)

// sumOf hashes data in memory; longer data comes in several Writes.
func sumOf(text string) checksum.Hash {
	d := checksum.NewDigest(checksum.SHA256, 0)
	d.Write([]byte(text))
	d.Finish()
	return checksum.Hash{Algorithm: checksum.SHA256, Sum: d.Sums[0]}
}

func ExampleNewDigest() {
	fmt.Println(sumOf("hello\n"))
	// Output:
	// sha256:5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03
}

// Write a list that sha256sum -c can check. It appears once it is complete.
func ExampleCreate() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "SHA256SUMS")
	w, err := checksum.Create(name)
	if err != nil {
		log.Fatal(err)
	}
	defer w.Discard() // does nothing after Commit
	for _, file := range []string{"two", "one"} {
		if err := w.Add(file, sumOf(file)); err != nil {
			log.Fatal(err)
		}
	}
	if err := w.Commit(); err != nil {
		log.Fatal(err)
	}
	text, _ := os.ReadFile(name)
	fmt.Print(string(text))
	// Output:
	// 7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed  one
	// 3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3  two
}

// Compare files with a list. What else the list has is missing.
func ExampleOpen() {
	name := filepath.Join(os.TempDir(), "usftp-example-list")
	os.WriteFile(name, []byte(sumOf("1").String()[len("sha256:"):]+"  one\n"+
		sumOf("2").String()[len("sha256:"):]+"  two\n"+
		sumOf("3").String()[len("sha256:"):]+"  three\n"), 0o644)
	defer os.Remove(name)
	list, err := checksum.Open(name, checksum.SHA256)
	if err != nil {
		log.Fatal(err)
	}
	defer list.Close()
	for _, file := range []struct{ name, text string }{{"one", "1"}, {"two", "not 2"},
		{"four", "4"}} {
		listed, err := list.Check(file.name, sumOf(file.text))
		fmt.Println(file.name, listed, errors.Is(err, checksum.ErrMismatch))
	}
	for name, err := range list.Missing() {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("missing:", name)
	}
	// Output:
	// one true false
	// two true true
	// four false false
	// missing: three
}

// Find which files a list lacks, and which it has besides, without hashing any.
func ExampleList_Find() {
	name := filepath.Join(os.TempDir(), "usftp-example-names")
	os.WriteFile(name, []byte(sumOf("1").String()[len("sha256:"):]+"  one\n"+
		sumOf("2").String()[len("sha256:"):]+"  two\n"), 0o644)
	defer os.Remove(name)
	list, err := checksum.Open(name, checksum.SHA256)
	if err != nil {
		log.Fatal(err)
	}
	defer list.Close()
	for _, dir := range [][]string{{"one", "three"}, {"one", "two"}} {
		for _, file := range dir {
			if listed, _, err := list.Find(file); err != nil {
				log.Fatal(err)
			} else if !listed {
				fmt.Println("not listed:", file)
			}
		}
		for name, err := range list.Missing() {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println("missing:", name)
		}
		list.Reset() // for the next directory
	}
	// Output:
	// not listed: three
	// missing: two
}
