package rows

import (
	"fmt"
	"time"
)

// MountTools are the programs that mount a directory of a host, by the names that `bench mount`
// knows.
var MountTools = []string{"sshfs", "rclone mount", "usftp mount"}

// randomReads is the job that reads a little of its file.
const randomReads = "random"

// mountJob is a job on a mounted directory.
type mountJob struct {
	name, title string
	upload      bool
	bytes       int64
	files       int
	least       func(trip int) float64 // how many times as fast as sshfs it is to be
}

func always(bound float64) func(int) float64 { return func(int) float64 { return bound } }

// afar is a bound for links with a delay, and another one for those without.
func afar(bound, near float64) func(int) float64 {
	return func(trip int) float64 {
		if trip == 0 {
			return near
		}
		return bound
	}
}

var mountJobs = []mountJob{
	{"cat", "cat of 200 MB", false, 200e6, 0, afar(2, 1.2)},
	{"cp", "cp of 500 MB to the host", true, 500e6, 0, afar(2, 1)},
	{"ls", "ls -lR of 5,000 files, cold", false, 1000, 5000, always(5)},
	{"find", "find of 5,000 files, cold", false, 1000, 5000, always(5)},
	{"git-cold", "git status of 2,000 files, cold", false, 1000, 2000, always(5)},
	{"git-warm", "git status of 2,000 files, warm", false, 1000, 2000, always(2)},
	{"tar", "tar x of 500 files of 4 KiB", true, 4 << 10, 500, always(2)},
	{randomReads, "2,000 random reads of 4 KiB, 16 at once, in 256 MB", false, 256e6, 0, always(1)},
}

// mountRows are jobs on a mounted directory, each over links with three delays. All but cp use less
// data than the targets were set for, so that they end in minutes. Without a delay any program
// fills a link of 1 Gbit/s with cat and cp, so these run over a link without a limit too.
func mountRows() []Row {
	var all []Row
	for _, job := range mountJobs {
		for _, trip := range []int{0, 10, 50} {
			all = append(all, mountRow(job, trip, 1e9))
		}
		if job.files == 0 && job.name != randomReads {
			all = append(all, mountRow(job, 0, 0))
		}
	}
	return all
}

// mountRow is a job over a link with a round trip in milliseconds and a rate in bits per second, or
// without a limit if that is 0.
func mountRow(job mountJob, trip int, rate float64) Row {
	name, link := fmt.Sprintf("mount-%s-%dms", job.name, trip), "1 Gbit/s"
	if rate == 0 {
		name, link = name+"-unlimited", "a link without limit"
	}
	row := Row{
		Name:   name,
		Title:  fmt.Sprintf("%s, on a mount over %s and %d ms", job.title, link, trip),
		Upload: job.upload, Bytes: job.bytes, Files: job.files, Cipher: fastCipher,
		InSeconds: job.name == randomReads,
		Link:      &Link{RTT: time.Duration(trip) * time.Millisecond, Rate: rate},
		Ours:      "usftp mount",
		TellsOwn:  true, Apart: make(map[string]Apart),
		Targets: []Target{{Against: "sshfs", Bound: job.least(trip)}},
	}
	for _, tool := range MountTools {
		program := tool
		if tool == "usftp mount" {
			program = UsftpProgram
		} else if tool == "rclone mount" {
			program = "rclone"
		}
		row.Contestants = append(row.Contestants, Contestant{tool,
			fmt.Sprintf(`"$BENCH" mount %q %s`, tool, job.name), program})
		row.Apart[tool] = Apart{NoFile: !job.upload}
	}
	return row
}
