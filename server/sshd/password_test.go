package sshd

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/bcrypt"
)

func argon2Line(password string, kib uint32) string {
	salt := []byte("saltsalt")
	hash := argon2.IDKey([]byte(password), salt, 1, kib, 1, 32)
	encode := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=19$m=%d,t=1,p=1$%s$%s", kib, encode(salt), encode(hash))
}

func TestPasswords(t *testing.T) {
	hash, err := bcrypt.GenerateFromPassword([]byte("secret of b"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	p, err := ParsePasswords("users", []byte("# users\n\na:"+argon2Line("secret of a",
		64)+"\nb:"+string(hash)+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	for _, c := range []struct {
		user, password string
		want           bool
	}{
		{"a", "secret of a", true}, {"b", "secret of b", true}, {"a", "secret of b", false}, {"b",
			"", false},
		{"c", "secret of a", false}, {"", "", false},
	} {
		if err := p.Check(ctx, c.user, c.password); (err == nil) != c.want {
			t.Errorf("%s with %q: %v", c.user, c.password, err)
		}
	}
	empty, err := ParsePasswords("users", nil)
	if err != nil || empty.Check(ctx, "a", "x") == nil {
		t.Errorf("an empty file lets somebody in: %v", err)
	}
}

// countedHash records the work that is done.
type countedHash struct {
	passwordHash
	work *[]hashCost
}

func (h countedHash) check(password []byte) bool {
	*h.work = append(*h.work, h.cost())
	return h.passwordHash.check(password)
}

// TestEveryCheckDoesTheSameWork: timing does not reveal whether a user exists, even if costs are
// mixed.
func TestEveryCheckDoesTheSameWork(t *testing.T) {
	cheap, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	dear, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost+1)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := ParsePasswords("users", []byte("small:"+argon2Line("secret", 64)+"\nlarge:"+
		argon2Line("secret", 128)+"\ncheap:"+string(cheap)+"\ndear:"+string(dear)+"\nalso:"+
		string(cheap)+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	var work []hashCost
	counted := map[string]passwordHash{}
	for user, hash := range parsed.hashes {
		counted[user] = countedHash{hash, &work}
	}
	p := newPasswords(counted)
	var want []hashCost
	for _, user := range []string{"small", "large", "cheap", "dear", "also", "nobody", ""} {
		for _, password := range []string{"secret", "wrong", strings.Repeat("x", 100)} {
			work = nil
			err := p.Check(t.Context(), user, password)
			if right := password == "secret" && counted[user] != nil; (err == nil) != right {
				t.Errorf("%q with %q: %v", user, password, err)
			}
			if want == nil {
				want = work
			}
			if len(work) != 4 || !slices.Equal(work, want) {
				t.Errorf("%q with %q: the work is %v, for the first user it was %v", user,
					password, work, want)
			}
		}
	}
}

func TestPasswordFilesThatAreWrong(t *testing.T) {
	good := argon2Line("x", 64)
	for text, want := range map[string]string{
		"a":                         "name:hash",
		":x":                        "name:hash",
		"a:plain":                   "neither argon2id nor bcrypt",
		"a:{SHA}x":                  "neither argon2id nor bcrypt",
		"a:$2y$99$x":                "bcrypt",
		"a:" + good + "\na:" + good: "already",
		"a:" + strings.Replace(good, "m=64", "m=99999999", 1): "needs 99999999 KiB",
		"a:" + strings.Replace(good, "t=1", "t=0", 1):         "out of range",
		"a:" + strings.Replace(good, "v=19", "v=16", 1):       "version 19",
		"a:" + good[:len(good)-30]:                            "too short or not base64",
	} {
		_, err := ParsePasswords("users", []byte("# x\n"+text))
		if err == nil || !strings.Contains(err.Error(), want) ||
			!strings.HasPrefix(err.Error(), "users:") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestMemoryOfChecksIsBounded(t *testing.T) {
	p, err := ParsePasswords("users", []byte("u:"+argon2Line("secret", 8)+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		if !p.memory.TryAcquire(passwordMemory) {
			t.Fatal("memory is taken before any check")
		}
		ctx, cancel := context.WithCancel(t.Context())
		var waiters sync.WaitGroup
		var first, second error
		began := false
		waiters.Go(func() { first = p.Check(ctx, "u", "secret") })
		synctest.Wait()
		waiters.Go(func() { second = p.Check(t.Context(), "u", "secret"); began = true })
		synctest.Wait()
		if began {
			t.Error("a check went on without memory")
		}
		cancel()
		synctest.Wait()
		if !errors.Is(first, context.Canceled) || began {
			t.Errorf("the check that was given up: %v", first)
		}
		p.memory.Release(passwordMemory)
		waiters.Wait()
		if second != nil {
			t.Errorf("the check that waited: %v", second)
		}
		if !p.memory.TryAcquire(passwordMemory) {
			t.Error("memory is taken after all checks")
		}
	})
}

func TestHashPassword(t *testing.T) {
	one, two := HashPassword("open sesame"), HashPassword("open sesame")
	if one == two {
		t.Error("two hashes have the same salt")
	}
	p, err := ParsePasswords("users", []byte("u:"+one+"\nv:"+two+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{"u", "v"} {
		if err := p.Check(t.Context(), user, "open sesame"); err != nil {
			t.Error(err)
		}
		if err := p.Check(t.Context(), user, "open sesam"); err == nil {
			t.Error("another password is taken")
		}
	}
}
