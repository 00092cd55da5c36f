package report

import "strings"

// Advice replaces the library's words in errors and events, which name the option that would help,
// by the command's.
var Advice = strings.NewReplacer(advice...)

// advice alternates the library's and the command's words: not the option alone, which may be the
// name of a file in the same message, but with the words next to it.
var advice = []string{
	"the same call with transfer.Options.Resume continues", "the same command with --resume continues",
	"the same call continues from there", "the same command continues from there",
	"(transfer.Options.Resume continues from", "(--resume continues from",
	"transfer.Options.Changing accepts what", "--changing accepts what",
	"; transfer.PlaceDirect writes the target", "; --inplace writes the target",
	"; transfer.LinksFollow follows links", "; --links follow follows links",
	"(transfer.SyncOptions.Checksum compares", "(--checksum compares",
	"transfer.SyncOptions.MaxDelete allows", "--max-delete allows",
	"transfer.SyncOptions.MaxDelete of", "--max-delete of",
	"(transfer.SyncOptions.NoLock turns", "(--no-lock turns",
	"; transfer.SyncOptions.NoLock ignores", "; --no-lock ignores",
	"(pool.ConnectConfig.Connections and Streams of 1)", "(--connections=1 --streams=1)",
	"system's ssh (dial.Config.SSH)", "system's ssh (--ssh)",
	"(dial.Config.SSH) may have one", "(--ssh) may have one",
	"(transfer.Copy copies files)", "(`usftp cp` copies files)",
	"`scp -O` copies without SFTP", "`usftp cp -O` copies without SFTP",
}
