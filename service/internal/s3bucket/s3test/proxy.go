package s3test

import (
	"net/http/httputil"
	"net/url"
	"testing"
)

// Proxy returns a proxy to a storage, which a test puts in front of it to have requests fail.
func Proxy(t *testing.T, endpoint string) *httputil.ReverseProxy {
	t.Helper()
	target, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host // which is signed
	}}
}
