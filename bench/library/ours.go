package library

import (
	"io"

	"github.com/usftp/usftp"
	"golang.org/x/crypto/ssh"
)

// ours is usftp without any option: it is to win without being tuned.
func ours() []Library {
	wrap := func(client *usftp.Client, err error) (Client, error) {
		if err != nil {
			return nil, err
		}
		return usftpClient{client}, nil
	}
	return []Library{{
		Name:     "usftp",
		Settings: "defaults",
		OverPipe: func(r io.Reader, w io.WriteCloser) (Client, error) {
			return wrap(usftp.NewClientPipe(r, w))
		},
		OverSSH: func(conn *ssh.Client) (Client, error) {
			return wrap(usftp.NewClient(conn))
		},
	}}
}

type usftpClient struct{ client *usftp.Client }

func (c usftpClient) Open(path string) (File, error) {
	f, err := c.client.Open(path)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (c usftpClient) Create(path string) (File, error) {
	f, err := c.client.Create(path)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (c usftpClient) Close() error { return c.client.Close() }
