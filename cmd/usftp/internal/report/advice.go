package report

import "strings"

// Advice puts the command's words in the place of the library's, whose errors and events name the
// option that would help.
var Advice = strings.NewReplacer(advice...)

// advice has, in turns, what the library says and what the command says.
var advice = []string{
	"the same call with transfer.Options.Resume", "the same command with --resume",
	"the same call continues", "the same command continues",
	"transfer.Options.Resume", "--resume",
	"transfer.Options.Changing", "--changing",
	"transfer.PlaceDirect", "--inplace",
	"transfer.LinksFollow", "--links follow",
	"transfer.SyncOptions.Checksum", "--checksum",
	"transfer.SyncOptions.MaxDelete", "--max-delete",
	"transfer.SyncOptions.NoLock", "--no-lock",
	"pool.ConnectConfig.Connections and Streams of 1", "--connections=1 --streams=1",
	"dial.Config.SSH", "--ssh",
	"`scp -O`", "`usftp cp -O`",
}
