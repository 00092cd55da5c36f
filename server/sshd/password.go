package sshd

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/bcrypt"
	"golang.org/x/sync/semaphore"
)

// passwordMemory limits, in KiB, the memory of all password checks in progress, and of each hash:
// argon2id is designed to need much, and starting a login costs a client nothing.
const passwordMemory = 256 << 10

// Passwords are the hashes of users' passwords, from a file with a line "name:hash" for each, where
// the hash is argon2id's ("$argon2id$v=19$m=65536,t=3,p=4$salt$hash") or bcrypt's ("$2y$12$..."),
// as htpasswd -B writes it. Empty lines and lines that begin with "#" are skipped. It is safe for
// concurrent use.
type Passwords struct {
	hashes map[string]passwordHash
	costs  []passwordHash      // one hash of each cost in the file
	memory *semaphore.Weighted // KiB
}

// passwordHash checks a password.
type passwordHash interface {
	check(password []byte) bool
	cost() hashCost
}

// hashCost is the cost of a check: two hashes of equal cost do the same work.
type hashCost struct {
	bcrypt    int    // 0 for argon2id
	time, kib uint32 // kib is the memory needed
	threads   uint8
}

// ParsePasswords parses the contents of a file; name is for errors, which include the line number.
func ParsePasswords(name string, data []byte) (*Passwords, error) {
	hashes := map[string]passwordHash{}
	scanner := bufio.NewScanner(bytes.NewReader(data))
	for number := 1; scanner.Scan(); number++ {
		line := strings.TrimSpace(scanner.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		user, text, ok := strings.Cut(line, ":")
		if !ok || user == "" {
			return nil, fmt.Errorf("%s:%d: not of the form name:hash", name, number)
		}
		if _, twice := hashes[user]; twice {
			return nil, fmt.Errorf("%s:%d: %s already has a password", name, number, user)
		}
		hash, err := parsePasswordHash(text)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, number, err)
		}
		hashes[user] = hash
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return newPasswords(hashes), nil
}

func newPasswords(hashes map[string]passwordHash) *Passwords {
	p := &Passwords{hashes: hashes, memory: semaphore.NewWeighted(passwordMemory)}
	seen := map[hashCost]bool{}
	for _, hash := range hashes {
		if cost := hash.cost(); !seen[cost] {
			seen[cost] = true
			p.costs = append(p.costs, hash)
		}
	}
	return p
}

// errWrongPassword does not reveal whether the user exists.
var errWrongPassword = errors.New("the password is wrong, or there is no such user")

// Check returns nil if password is user's. It waits while the checks in progress use too much
// memory or all processors, until ctx ends: then the error wraps [ErrUndecided].
//
// Every check does the same work, whether or not the user exists: one hash of each cost in the
// file. So timing does not reveal which users exist, even if costs are mixed. Checks are fastest if
// all hashes have the same cost.
func (p *Passwords) Check(ctx context.Context, user, password string) error {
	// No more checks at once than processors.
	need := int64(passwordMemory / runtime.GOMAXPROCS(0))
	for _, hash := range p.costs {
		need = max(need, int64(hash.cost().kib))
	}
	if err := p.memory.Acquire(ctx, need); err != nil {
		return fmt.Errorf("%w: too many passwords are being checked: %w", ErrUndecided, err)
	}
	defer p.memory.Release(need)
	own, known := p.hashes[user]
	right := false
	for _, hash := range p.costs {
		if known && own.cost() == hash.cost() {
			right = own.check([]byte(password))
		} else {
			hash.check([]byte(password))
		}
	}
	if !right {
		return errWrongPassword
	}
	return nil
}

func parsePasswordHash(text string) (passwordHash, error) {
	switch {
	case strings.HasPrefix(text, "$argon2id$"):
		return parseArgon2(text)
	case strings.HasPrefix(text, "$2"):
		cost, err := bcrypt.Cost([]byte(text))
		if err != nil {
			return nil, fmt.Errorf("invalid bcrypt hash: %w", err)
		}
		if cost > 16 {
			return nil, fmt.Errorf("bcrypt cost %d is too high: a check would take seconds", cost)
		}
		return bcryptHash{text, cost}, nil
	}
	return nil, errors.New("the hash is neither argon2id nor bcrypt")
}

type bcryptHash struct {
	text string
	log  int // of the number of rounds
}

func (h bcryptHash) check(password []byte) bool {
	return bcrypt.CompareHashAndPassword([]byte(h.text), password) == nil
}

func (h bcryptHash) cost() hashCost { return hashCost{bcrypt: h.log, kib: 4} }

// argon2Hash is a hash in the format of argon2's reference implementation.
type argon2Hash struct {
	time, kib  uint32
	threads    uint8
	salt, hash []byte
}

func parseArgon2(text string) (passwordHash, error) {
	fields := strings.Split(text, "$")
	if len(fields) != 6 || fields[2] != "v=19" {
		return nil, errors.New("invalid argon2id hash: it must have version 19 and five fields")
	}
	var h argon2Hash
	if _, err := fmt.Sscanf(fields[3], "m=%d,t=%d,p=%d", &h.kib, &h.time, &h.threads); err != nil {
		return nil, fmt.Errorf("invalid argon2id parameters %q: %w", fields[3], err)
	}
	var err, err2 error
	h.salt, err = base64.RawStdEncoding.DecodeString(fields[4])
	h.hash, err2 = base64.RawStdEncoding.DecodeString(fields[5])
	switch {
	case err != nil || err2 != nil || len(h.salt) < 8 || len(h.hash) < 16:
		return nil, errors.New("invalid argon2id hash: the salt or the hash is too short or not base64")
	case h.time == 0 || h.threads == 0 || h.time > 100:
		return nil, fmt.Errorf("argon2id parameters %q are out of range", fields[3])
	case h.kib > passwordMemory:
		return nil, fmt.Errorf("the argon2id hash needs %d KiB of memory, more than the limit of %d",
			h.kib, passwordMemory)
	}
	return &h, nil
}

// The cost of HashPassword's hashes: 64 MiB and three passes, as RFC 9106, section 4, recommends
// where memory is short.
const (
	hashTime    = 3
	hashKiB     = 64 << 10
	hashThreads = 4
	hashSalt    = 16
	hashLength  = 32
)

// HashPassword returns an argon2id hash with a random salt, for [ParsePasswords] to read after the
// colon.
func HashPassword(password string) string {
	h := argon2Hash{time: hashTime, kib: hashKiB, threads: hashThreads,
		salt: make([]byte, hashSalt)}
	rand.Read(h.salt) // never fails
	h.hash = argon2.IDKey([]byte(password), h.salt, h.time, h.kib, h.threads, hashLength)
	encode := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, h.kib, h.time,
		h.threads, encode(h.salt), encode(h.hash))
}

func (h *argon2Hash) check(password []byte) bool {
	got := argon2.IDKey(password, h.salt, h.time, h.kib, h.threads, uint32(len(h.hash)))
	return subtle.ConstantTimeCompare(got, h.hash) == 1
}

func (h *argon2Hash) cost() hashCost {
	return hashCost{time: h.time, kib: h.kib, threads: h.threads}
}
