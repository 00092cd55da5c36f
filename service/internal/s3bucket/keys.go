package s3bucket

import (
	"fmt"
	"net/http"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
)

func (c *Config) credentials() *credentials.Credentials {
	switch {
	case c.AccessKey != "":
		return credentials.NewStaticV4(c.AccessKey, c.SecretKey, "")
	case c.Keys != "":
		return credentials.New(keys{
			&credentials.FileAWSCredentials{Filename: c.Keys, Profile: c.Profile}, c.Keys})
	}
	return keepEach(&credentials.EnvAWS{}, &credentials.FileAWSCredentials{},
		&credentials.IAM{Client: &http.Client{Timeout: 5 * time.Second}})
}

// keepEach returns the keys of the first provider that has some.
func keepEach(providers ...credentials.Provider) *credentials.Credentials {
	var chain credentials.Chain
	for _, one := range providers {
		chain.Providers = append(chain.Providers, &kept{Credentials: credentials.New(one)})
	}
	return credentials.New(keys{&chain, ""})
}

// kept keeps a provider's keys until they expire. A chain by itself would also not look at the
// providers before that one until then: a role's keys hold for hours. Credentials are renewed when a
// part of that time is left, in which they are used if the provider does not answer.
type kept struct {
	*credentials.Credentials
	last   credentials.Value
	failed time.Time
}

// betweenTries is how long a provider that does not answer is not asked, if its keys still hold.
const betweenTries = time.Minute

func (k *kept) RetrieveWithCredContext(cc *credentials.CredContext) (credentials.Value, error) {
	holds := time.Now().Before(k.last.Expiration)
	if holds && time.Since(k.failed) < betweenTries {
		return k.last, nil
	}
	value, err := k.GetWithContext(cc)
	switch {
	case err == nil:
		k.last = value
	case holds:
		k.failed = time.Now()
		return k.last, nil
	}
	return value, err
}

func (k *kept) Retrieve() (credentials.Value, error) { return k.RetrieveWithCredContext(nil) }

func (*kept) IsExpired() bool { return true }

// keys are the keys that a provider has. A file of them is read for each request, also while
// somebody replaces it.
type keys struct {
	credentials.Provider
	file string // or ""
}

// noKeys is the error if there are no keys now. It must not match what there is of the file: for
// objectfs, a file that does not exist would be the object.
type noKeys string

func (n noKeys) Error() string { return string(n) }

func (k keys) RetrieveWithCredContext(cc *credentials.CredContext) (credentials.Value, error) {
	value, err := k.Provider.RetrieveWithCredContext(cc)
	switch {
	case err == nil && value.AccessKeyID != "":
		return value, nil
	case k.file != "": // which the error may quote
		err = noKeys(fmt.Sprintf("no keys in %s: it has to be like ~/.aws/credentials", k.file))
	case err != nil:
		err = noKeys(fmt.Sprintf("there are no keys: %v", err))
	default:
		err = noKeys("there are no keys: name a file of them, or set AWS_ACCESS_KEY_ID and " +
			"AWS_SECRET_ACCESS_KEY, or give this machine a role")
	}
	return credentials.Value{}, err
}
