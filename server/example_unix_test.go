//go:build unix

package server_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/osfs"
)

// A view used without Serve shares the limit on expensive operations with the sessions that have
// the same Work in their Options.
func ExampleView_WithWork() {
	var work server.Work
	view, err := server.NewView(osfs.Host(), &server.Policy{User: "alice"})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := view.WithWork(context.Background(), &work)
	_, err = view.Stat(ctx, strings.Repeat("/.", 200))
	fmt.Println(err)
	// Output: <nil>
}
