package main

import (
	"testing"

	"github.com/usftp/usftp/bench/result"
)

// serveRun is a run of 1 GiB in one stream: seconds, processor seconds of the server and of the
// client's busiest process.
func serveRun(contestant string, round int, seconds, server, client float64) result.Run {
	return result.Run{Row: "serve-sftp-get-gcm-1", Contestant: contestant, Command: "run $i",
		Round: round, Bytes: 1 << 30,
		Seconds: seconds, Server: server, User: client, Busiest: client}
}

// With sftp, whose core is full, usftp reaches 0.8 x OpenSSH; with usftp cp it meets every goal.
// One of sshd's processor times is from a run that could have missed some of it.
func TestServers(t *testing.T) {
	dir := t.TempDir()
	whole := serveRun("openssh: sftp", 1, 0.8, 1, 0.5)
	whole.ServerWhole = true
	writeRuns(t, dir, session,
		whole, serveRun("sftpgo: sftp", 1, 2, 1,
			0.5), serveRun("usftp: sftp", 1, 1, 0.8, 0.95),
		serveRun("openssh: usftp cp", 1, 2, 1, 0.5), serveRun("sftpgo: usftp cp", 1, 2, 1,
			0.5), serveRun("usftp: usftp cp", 1, 1, 0.5, 0.5),
		serveRun("balanced: usftp cp", 1, 1, 0.5, 0.5))
	expect(t, render(t, dir),
		"### SFTP get, aes128-gcm@openssh.com",
		"| 1 | sftp | 1342 | 537 | 1074 |  | 2.00 | **0.80** | 1.00 | 1.00 | 0.80 |  | **0.80** | 0.95 | client |",
		"| 1 | usftp cp | 537 | 537 | 1074 | 1074 | 2.00 | 2.00 | not re-measured | 1.00 | 0.50 | 0.50 | 0.50 | 0.50 |  |",
		"| faster than SFTPGo | 2 | 2 | 0 |",
		"| at most 0.7 (SFTP) or 0.6 (SCP) of SFTPGo's processor time | 1 | 2 | 1 |",
		"| no slower than OpenSSH | 1 | 2 | 1 |",
		"```sh\nrun $i\n")
}

func TestServersWithoutAll(t *testing.T) {
	dir := t.TempDir()
	failed := serveRun("openssh: sftp", 1, 1, 1, 1)
	failed.Failure, failed.Bytes = "exit status 1", 5
	writeRuns(t, dir, session, failed, serveRun("usftp: sftp", 1, 1, 1, 0.9))
	expect(t, render(t, dir),
		"| 1 | sftp | failed: exit status 1 |  | 1074 |  |  |  | failed: exit status 1 |",
		"measured with 5 bytes instead of 1073741824",
		"| no slower than OpenSSH | 0 | 0 | 0 |")
}
