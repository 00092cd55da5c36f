package sshd

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
)

// usual are the rules of a server that is not told others.
var usual = BanRules{}.WithDefaults()

// keyAndPassword lets everybody in with the key or the password "secret".
func keyAndPassword(t *testing.T) (Config, ssh.AuthMethod) {
	t.Helper()
	key := newKey(t)
	access := &Access{FS: memfs.New(0)}
	config := Config{Password: func(_ ssh.ConnMetadata, password string) (*Access, error) {
		if password != "secret" {
			return nil, errWrongPassword
		}
		return access, nil
	}}
	config.PublicKey = func(_ ssh.ConnMetadata, offered ssh.PublicKey) (*Access, error) {
		if string(offered.Marshal()) != string(key.PublicKey().Marshal()) {
			return nil, errUnknownKey
		}
		return access, nil
	}
	return config, ssh.PublicKeys(key)
}

// TestGuessesShutOutNobodyElse: wrong passwords of one user keep out neither its key nor others
// behind the same address, until they are too many for that.
func TestGuessesShutOutNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var book eventBook
		config, key := keyAndPassword(t)
		config.Events = book.note
		s := newServer(t, config)
		enters := func(user string, with ssh.AuthMethod) bool {
			client, err := connectAs(s, user, with)
			if err == nil {
				client.Close()
			}
			return err == nil
		}
		for range usual.UserFailures + 3 {
			enters("alice", ssh.Password("wrong"))
		}
		if bans := book.of(server.UserBanned); len(bans) == 0 || bans[0].User != "alice" ||
			len(book.of(server.AddressBanned)) > 0 {
			t.Errorf("the bans are %+v", bans)
		}
		if enters("alice", ssh.Password("secret")) {
			t.Error("a password can be guessed for as long as one likes")
		}
		if !enters("alice", key) || !enters("bob", ssh.Password("secret")) {
			t.Error("somebody else's wrong passwords shut out others")
		}
		time.Sleep(2 * usual.First)
		if !enters("alice", ssh.Password("secret")) {
			t.Error("the ban does not end")
		}
		for i := range usual.AddressFailures {
			enters(fmt.Sprint("name", i), ssh.Password("wrong"))
		}
		if enters("alice", key) {
			t.Error("an address may guess with as many names as it likes")
		}
		time.Sleep(usual.Longest)
		if !enters("alice", key) {
			t.Error("the ban of the address does not end")
		}
	})
}

// TestBusyChecksBanNobody: a password that could not be checked, since too many others were being
// checked, is not a wrong one.
func TestBusyChecksBanNobody(t *testing.T) {
	passwords, err := ParsePasswords("users", []byte("u:"+argon2Line("secret", 8)+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		d, err := NewDirectory(Accounts{Users: []User{{Name: "u", FS: memfs.New(0)}},
			Passwords: passwords})
		if err != nil {
			t.Fatal(err)
		}
		s := newServer(t, Config{Password: d.Password})
		if !passwords.memory.TryAcquire(passwordMemory) {
			t.Fatal("memory is taken before any check")
		}
		for range 2 * usual.UserFailures {
			if _, err := connect(s, ssh.Password("secret")); err == nil {
				t.Fatal("a password is taken unchecked")
			}
		}
		passwords.memory.Release(passwordMemory)
		client, err := connect(s, ssh.Password("secret"))
		if err != nil {
			t.Fatalf("the user is shut out: %v", err)
		}
		client.Close()
	})
}

// checked is a load balancer's check.
type checked struct{ address }

func (checked) HealthCheck() bool { return true }

// TestChecksAreNotBanned: a load balancer that greets the server every second does so forever.
func TestChecksAreNotBanned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := onlyPassword(&Access{FS: memfs.New(0)})
		config.BanRules.AddressFailures = 2
		s := newServer(t, config)
		for i := range 600 {
			ours, theirs := net.Pipe()
			go s.ServeConn(checked{address{theirs}})
			go io.WriteString(ours, "SSH-2.0-check\r\n")
			line, err := bufio.NewReader(ours).ReadString('\n')
			if synctest.Wait(); err != nil || line != serverVersion+"\r\n" {
				t.Fatalf("check %d is answered with %q, %v", i, line, err)
			}
			ours.Close()
			time.Sleep(time.Second)
		}
	})
}

// TestUnchangedPasswordsBanNobody: a right password that had to be changed, and could not be, is no
// wrong one.
func TestUnchangedPasswordsBanNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := true
		s := newServer(t, Config{Password: func(ssh.ConnMetadata, string) (*Access, error) {
			return &Access{FS: memfs.New(0), Renew: func(string) error {
				if down {
					return fmt.Errorf("%w: the store does not answer", ErrUndecided)
				}
				return nil
			}}, nil
		}})
		answer := ssh.KeyboardInteractive(func(_, _ string, asked []string,
			_ []bool) ([]string, error) {
			return slices.Repeat([]string{"secret"}, len(asked)), nil
		})
		for range 2 * usual.UserFailures {
			if _, err := connect(s, answer); err == nil {
				t.Fatal("a login without a change that was needed")
			}
		}
		down = false
		client, err := connect(s, answer)
		if err != nil {
			t.Fatalf("the user is shut out: %v", err)
		}
		client.Close()
	})
}

// TestProgramThatFailsForever: one that tries a wrong key or password every minute, all day, shuts
// out none of its neighbours.
func TestProgramThatFailsForever(t *testing.T) {
	for name, wrong := range map[string]ssh.AuthMethod{"password": ssh.Password("wrong"),
		"key": ssh.PublicKeys(newKey(t))} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				config, key := keyAndPassword(t)
				s := newServer(t, config)
				for range 24 * 60 {
					if _, err := connectAs(s, "bob", wrong); err == nil {
						t.Fatal("it was let in")
					}
					time.Sleep(time.Minute)
				}
				client, err := connectAs(s, "alice", key)
				if err != nil {
					t.Fatalf("alice is shut out: %v", err)
				}
				client.Close()
			})
		})
	}
}

func newKey(t *testing.T) ssh.Signer {
	t.Helper()
	key, _, err := makeKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// TestSafeNetworks: they are never banned, not even by hand, and guesses from there take time.
func TestSafeNetworks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := onlyPassword(&Access{FS: memfs.New(0)})
		config.Safe = func(a netip.Addr) bool { return a == home }
		list := NewBanList()
		config.Bans = list
		list.Failed(t.Context(), Source{Network: Network(home)}, 1000, &usual)
		s := newServer(t, config)
		for range usual.AddressFailures + 3 {
			began := time.Now()
			if _, err := connect(s, ssh.Password("wrong")); err == nil {
				t.Fatal("a wrong password was taken")
			}
			if time.Since(began) < safeDelay {
				t.Fatal("a guess costs nothing")
			}
		}
		mustConnect(t, s)
	})
}

// TestBanRules: settings say after how many failures a ban comes and how long it takes.
func TestBanRules(t *testing.T) {
	rules := BanRules{UserFailures: 3, AddressFailures: 5, First: time.Hour,
		Longest: 3 * time.Hour}.WithDefaults()
	for _, c := range []struct {
		user     string
		failures float64
		want     time.Duration
	}{{"u", 2.4, 0}, {"u", 2.9, time.Hour}, {"u", 3, time.Hour}, {"u", 3.9, 2 * time.Hour},
		{"u", 5, 3 * time.Hour}, {"u", 1e18, 3 * time.Hour}, {"", 4, 0}, {"", 5, time.Hour}} {
		if _, ban := rules.Penalty(Source{User: c.user}, c.failures); ban != c.want {
			t.Errorf("%q, %v failures: a ban of %v, want %v", c.user, c.failures, ban, c.want)
		}
	}
}

// TestSourceText: what is stored of a source is it again, whatever a client calls itself.
func TestSourceText(t *testing.T) {
	for _, user := range []string{"", "ann", "a b 5", "\x00\xff\"\n", "日本"} {
		source := Source{Network(home), user}
		if got, err := ParseSource(source.String()); got != source || err != nil {
			t.Errorf("%q is %+v, %v", source, got, err)
		}
	}
}
