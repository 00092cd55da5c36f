package s3bucket

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/objectfs"
	"github.com/usftp/usftp/wire"
)

// testNodes: two servers change the same files, and their quota equals what a count finds. No file
// is removed or replaced while another server writes to it: versitygw checks conditions some time
// before it makes the change.
func testNodes(t *testing.T, s storage) {
	account, state := server.NewAccount(0, 0), &objectfs.MemoryState{}
	account.Settle(1<<40, 1<<20) // it would not fall below zero
	var nodes []*node
	for number := range uint64(2) {
		files := objectfs.New(s.start(t), &objectfs.Options{State: state})
		view, err := server.NewView(files, &server.Policy{Quota: server.NewQuotaOf(account)})
		if err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, &node{t, view, number, rand.New(rand.NewPCG(number, 1))})
	}
	for range 8 {
		for _, step := range []func(*node){(*node).make, (*node).remove} {
			var all sync.WaitGroup
			for _, n := range nodes {
				all.Go(func() {
					for range 15 {
						step(n)
					}
				})
			}
			all.Wait()
		}
		counted := server.NewQuota(0, 0)
		files := objectfs.New(s.start(t), &objectfs.Options{State: state})
		if err := counted.Recount(t.Context(), files, "/"); err != nil {
			t.Fatal(err)
		}
		bytes, number := counted.Usage()
		now := account.Usage()
		if now.Bytes -= 1 << 40; now.Bytes != bytes || now.Files-1<<20 != number {
			t.Fatalf("%d bytes in %d files were kept, %d in %d are there", now.Bytes,
				now.Files-1<<20, bytes, number)
		}
	}
}

// node is a server whose client makes changes at random, which fail if another one makes them.
type node struct {
	*testing.T
	view   *server.View
	number uint64
	random *rand.Rand
}

func (n *node) name() string {
	return fmt.Sprint([]string{"/", "/d/"}[n.random.IntN(2)], n.random.IntN(3))
}

func (n *node) make() {
	switch n.random.IntN(4) {
	case 0:
		n.view.Rename(n.Context(), n.name(), n.name())
	case 1:
		n.view.Mkdir(n.Context(), "/d", wire.Attrs{})
	default:
		f, err := n.view.Open(n.Context(), n.name(), wire.OpenWrite|wire.OpenCreate, wire.Attrs{})
		if err != nil {
			return
		}
		size := n.random.IntN(1000)
		if n.random.IntN(15) == 0 {
			size = 5<<20 + n.random.IntN(1<<20)
		}
		f.WriteAt([]byte(text(size)), 0)
		f.Close()
	}
}

func (n *node) remove() {
	switch n.random.IntN(4) {
	case 0:
		n.view.PosixRename(n.Context(), n.name(), fmt.Sprint("/renamed", n.number))
	case 1:
		n.view.PosixRename(n.Context(), "/d", fmt.Sprint("/e", n.number))
	case 2:
		n.view.Rmdir(n.Context(), fmt.Sprint("/e", n.random.IntN(2)))
	default:
		n.view.Remove(n.Context(), n.name())
	}
}
