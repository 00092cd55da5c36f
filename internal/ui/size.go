package ui

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// units are the units of sizes, decimal and binary.
var units = []struct {
	name  string
	bytes float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1}, {"", 1},
}

// ParseSize parses a number of bytes with a unit, such as 1.5GiB.
func ParseSize(text string) (int64, error) {
	for _, unit := range units {
		digits, ok := strings.CutSuffix(text, unit.name)
		if !ok {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
		if err == nil && value > 0 && value*unit.bytes >= 1 && value*unit.bytes < math.MaxInt64 {
			return int64(value * unit.bytes), nil
		}
		break
	}
	return 0, fmt.Errorf("invalid size %q: use a number with kB, MB, GB, TB, KiB, MiB, GiB or TiB",
		text)
}
