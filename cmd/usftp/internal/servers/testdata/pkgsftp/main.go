// Command pkgsftp serves pkg/sftp's files in memory over SSH. On standard input it takes requests
// of its own for these files, one a line in JSON, and answers them on standard output.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path"
	"path/filepath"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

func main() {
	key, err := os.ReadFile(filepath.Join(os.Args[1], "host"))
	check(err)
	signer, err := ssh.ParsePrivateKey(key)
	check(err)
	conf := &ssh.ServerConfig{PublicKeyCallback: func(ssh.ConnMetadata,
		ssh.PublicKey) (*ssh.Permissions, error) {
		return nil, nil
	}}
	conf.AddHostKey(signer)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	fmt.Println("PORT", listener.Addr().(*net.TCPAddr).Port)
	files := sftp.InMemHandler()
	go func() {
		for {
			conn, err := listener.Accept()
			check(err)
			go serve(conn, conf, files)
		}
	}()
	in, out := bufio.NewReader(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var q request
		check(json.Unmarshal(line, &q))
		check(out.Encode(q.answer(files)))
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(conn net.Conn, conf *ssh.ServerConfig, files sftp.Handlers) {
	_, channels, requests, err := ssh.NewServerConn(conn, conf)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for c := range channels {
		channel, requests, err := c.Accept()
		if err != nil {
			return
		}
		go func() {
			for r := range requests {
				r.Reply(r.Type == "subsystem", nil)
				if r.Type == "subsystem" {
					go sftp.NewRequestServer(channel, files).Serve()
				}
			}
		}()
	}
}

// A request is for the files, as the server's sessions have it.
type request struct {
	Method, Path, Target string
	Data                 []byte
}

type answer struct {
	Err   string
	Names []string
	Kind  string
	Data  []byte
	Mode  uint32
	Time  int64
}

func (q request) answer(files sftp.Handlers) (a answer) {
	err := q.do(files, &a)
	if err != nil {
		a.Err = err.Error()
	}
	return a
}

func (q request) do(files sftp.Handlers, a *answer) error {
	r := sftp.NewRequest(q.Method, q.Path)
	r.Target = q.Target
	switch q.Method {
	case "Put":
		r.Flags = 0x1a // WRITE, CREAT, TRUNC
		w, err := files.FilePut.Filewrite(r)
		if err == nil && len(q.Data) > 0 {
			_, err = w.WriteAt(q.Data, 0)
		}
		if c, ok := w.(io.Closer); ok && err == nil {
			err = c.Close()
		}
		return err
	case "Get":
		r.Flags = 1
		f, err := files.FileGet.Fileread(r)
		if err == nil {
			a.Data, err = io.ReadAll(io.NewSectionReader(f, 0, 1<<40))
		}
		return err
	case "Lstat":
		info, err := look(files, r)
		if err == nil {
			a.Mode, a.Time = uint32(info.Mode()), info.ModTime().Unix()
		}
		return err
	case "Readlink":
		text, err := files.FileList.(sftp.ReadlinkFileLister).Readlink(q.Path)
		a.Kind = text
		return err
	case "Names":
		return walk(files, q.Path, "", &a.Names)
	default:
		return files.FileCmd.Filecmd(r)
	}
}

func look(files sftp.Handlers, r *sftp.Request) (os.FileInfo, error) {
	lister, err := files.FileList.(sftp.LstatFileLister).Lstat(r)
	if err != nil {
		return nil, err
	}
	one := make([]os.FileInfo, 1)
	if n, err := lister.ListAt(one, 0); n != 1 {
		return nil, err
	}
	return one[0], nil
}

func walk(files sftp.Handlers, dir, prefix string, names *[]string) error {
	lister, err := files.FileList.Filelist(sftp.NewRequest("List", dir))
	if err != nil {
		return err
	}
	all := make([]os.FileInfo, 1000)
	n, err := lister.ListAt(all, 0)
	if err != nil && err != io.EOF {
		return err
	}
	for _, info := range all[:n] {
		name := path.Join(prefix, info.Name())
		*names = append(*names, name)
		if info.IsDir() {
			if err := walk(files, path.Join(dir, info.Name()), name, names); err != nil {
				return err
			}
		}
	}
	return nil
}
