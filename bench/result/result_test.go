package result

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestWhatIsWrittenIsRead(t *testing.T) {
	dir := t.TempDir()
	session := NewSession()
	runs := []Run{{Row: "get", Contestant: "scp", Command: "scp a b", Round: 1, Bytes: 5,
		Seconds: 1.5, PeakKiB: 3},
		{Row: "get", Contestant: "scp", Round: 2, Failure: "exit status 1"}}
	for range 2 { // the second in the same minute takes another name
		w, name, err := Create(dir, session)
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range runs {
			if err := w.Add(run); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		got, err := Read(name)
		if err != nil {
			t.Fatal(err)
		}
		want := File{Name: filepath.Base(name), Session: session, Runs: runs}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("read %+v, wrote %+v", got, want)
		}
	}
	if names, _ := filepath.Glob(filepath.Join(dir, "*.jsonl")); len(names) != 2 {
		t.Errorf("files: %q", names)
	}
}

func TestSessionTellsTheMachine(t *testing.T) {
	s := NewSession()
	m := s.Machine
	if s.Date == "" || m.CPU == "" || m.Cores < 1 || !strings.HasPrefix(m.Kernel, "Linux ") ||
		!strings.HasPrefix(m.Go, "1.") {
		t.Errorf("session %+v", s)
	}
}

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{5, 1, 3}, 3}, {[]float64{4, 1, 3, 2}, 2.5}} {
		if got := Median(test.values); got != test.want {
			t.Errorf("median of %v is %v, want %v", test.values, got, test.want)
		}
	}
}
