package store

import (
	"os"
	"testing"

	"github.com/usftp/usftp/internal/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.InMemory(m)) }
