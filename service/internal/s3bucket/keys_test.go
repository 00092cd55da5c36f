package s3bucket

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/usftp/usftp/service/internal/s3bucket/s3test"
)

// TestKeysAreReplaced: while somebody replaces the file of keys, requests wait. What fails after
// that does not quote the file, whose lines may be secret, and says of no object that it is absent.
func TestKeysAreReplaced(t *testing.T) {
	const gone = "gone"
	for _, half := range []string{gone, "", "[default]\naws_access_key_id = key\n",
		"[default]\naws_access_key_id = key\naws_secret_access_key secret\n"} {
		synctest.Test(t, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "keys")
			endpoint := &url.URL{Scheme: "http", Host: "storage.example"}
			c := config(endpoint.String())
			c.AccessKey, c.SecretKey, c.Keys = "", "", file
			b, err := newBucket("bucket", c, endpoint, &away{})
			if err != nil {
				t.Fatal(err)
			}
			part := func() error {
				body := strings.NewReader("text")
				_, err := b.UploadPart(t.Context(), "key", "id", 1, io.NewSectionReader(body, 0, 4))
				return err
			}
			write := func(text string) {
				err := os.WriteFile(file, []byte(text), 0o600)
				if text == gone {
					err = os.Remove(file)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			write(half)
			time.AfterFunc(usualPatience/2, func() {
				write("[default]\naws_access_key_id = " + s3test.AccessKey +
					"\naws_secret_access_key = " + s3test.SecretKey + "\n")
			})
			if err := part(); err != nil {
				t.Errorf("%q: while the file is replaced: %v", half, err)
			}
			write(half)
			if err := part(); err == nil || !strings.Contains(err.Error(), "no keys in "+file) ||
				strings.Contains(err.Error(), s3test.SecretKey) {
				t.Errorf("%q: it says %v", half, err)
			}
			if err := b.Delete(t.Context(), "key", ""); err == nil {
				t.Errorf("%q: deleted", half)
			}
			if _, err := b.Head(t.Context(), "key"); err == nil || isAbsent(err) {
				t.Errorf("%q: the object is said to be absent: %v", half, err)
			}
		})
	}
}

// refusing is storage that refuses requests, but for those that are signed with a key.
type refusing struct{ code, but string }

func (r refusing) RoundTrip(request *http.Request) (*http.Response, error) {
	if strings.Contains(request.Header.Get("Authorization"), "="+r.but+"/") {
		return (&away{}).RoundTrip(request)
	}
	answer := httptest.NewRecorder()
	answer.WriteHeader(http.StatusForbidden)
	fmt.Fprintf(answer, "<Error><Code>%s</Code></Error>", r.code)
	return answer.Result(), nil
}

// TestKeysAreRenewed: requests that the storage refuses since the keys hold no longer, or not yet,
// wait for others. If none come, they fail with what to do.
func TestKeysAreRenewed(t *testing.T) {
	for code, want := range map[string]string{
		"ExpiredToken":         "the keys have expired",
		"InvalidToken":         "the keys have expired",
		"InvalidTokenId":       "the keys have expired",
		"InvalidAccessKeyId":   "the storage does not know the access key",
		"XAdminUserNotFound":   "the storage does not know the access key",
		"RequestTimeTooSkewed": "this machine's clock is wrong",
	} {
		synctest.Test(t, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "keys")
			endpoint := &url.URL{Scheme: "http", Host: "storage.example"}
			c := config(endpoint.String())
			c.AccessKey, c.SecretKey, c.Keys = "", "", file
			b, err := newBucket("bucket", c, endpoint, refusing{code, "new"})
			if err != nil {
				t.Fatal(err)
			}
			write := func(key string) {
				text := "[default]\naws_access_key_id = " + key + "\naws_secret_access_key = s\n"
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			part := func() error {
				body := strings.NewReader("text")
				_, err := b.UploadPart(t.Context(), "key", "id", 1, io.NewSectionReader(body, 0, 4))
				return err
			}
			write("old")
			if err := part(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: without others: %v", code, err)
			}
			time.AfterFunc(usualPatience/2, func() { write("new") })
			if err := part(); err != nil {
				t.Errorf("%s: while others come: %v", code, err)
			}
		})
	}
}

// TestRoleBehindKeys: the keys of the file are used whenever it has some, although the machine has a
// role, too, whose keys hold for hours.
func TestRoleBehindKeys(t *testing.T) {
	var asked atomic.Int64
	role := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		fmt.Fprintf(w, `{"AccessKeyId":"role","SecretAccessKey":"s","Token":"t","Expiration":%q}`,
			time.Now().Add(6*time.Hour).UTC().Format(time.RFC3339))
	}))
	t.Cleanup(role.Close)
	file := filepath.Join(t.TempDir(), "credentials")
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "", "AWS_ACCESS_KEY": "",
		"AWS_SECRET_ACCESS_KEY": "", "AWS_SECRET_KEY": "", "AWS_CONFIG_FILE": file + ".none",
		"AWS_SHARED_CREDENTIALS_FILE": file, "AWS_PROFILE": "", "AWS_WEB_IDENTITY_TOKEN_FILE": "",
		"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "", "AWS_CONTAINER_CREDENTIALS_FULL_URI": role.URL,
	} {
		t.Setenv(name, value)
	}
	got := new(Config).credentials()
	for _, key := range []string{"one", "role", "role", "two", "role"} {
		text := "[default]\naws_access_key_id = " + key + "\naws_secret_access_key = s\n"
		if key == "role" { // somebody replaces the file
			text = ""
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if value, err := got.GetWithContext(nil); err != nil || value.AccessKeyID != key {
			t.Errorf("the key is %q, %v, want %q", value.AccessKeyID, err, key)
		}
	}
	if asked.Load() != 1 {
		t.Errorf("the role was asked for keys %d times, which hold for hours", asked.Load())
	}
}

// lending lends keys for an hour, which it says are to be renewed at once, unless it has failed.
type lending struct {
	err   error
	asked int
}

func (l *lending) Retrieve() (credentials.Value, error) {
	if l.asked++; l.err != nil {
		return credentials.Value{}, l.err
	}
	return credentials.Value{AccessKeyID: fmt.Sprint("key", l.asked), SecretAccessKey: "s",
		Expiration: time.Now().Add(time.Hour)}, nil
}

func (l *lending) RetrieveWithCredContext(*credentials.CredContext) (credentials.Value, error) {
	return l.Retrieve()
}

func (*lending) IsExpired() bool { return true }

// TestRoleThatIsAway: keys of a role are renewed long before they expire. While that fails they are
// used, and the role is not asked with each request, whose answer takes a while then.
func TestRoleThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		role := &lending{}
		all := keepEach(role)
		is := func(want string) {
			t.Helper()
			value, err := all.GetWithContext(nil)
			if value.AccessKeyID != want || (err == nil) != (want != "") {
				t.Errorf("the key is %q, %v, want %q", value.AccessKeyID, err, want)
			}
		}
		is("key1")
		role.err = errors.New("away")
		for range 10 {
			is("key1")
		}
		if role.asked != 2 {
			t.Errorf("the role was asked %d times", role.asked)
		}
		time.Sleep(2 * time.Minute)
		is("key1")
		role.err = nil
		time.Sleep(2 * time.Minute)
		is("key4")
		role.err = errors.New("away")
		time.Sleep(time.Hour)
		is("")
	})
}
