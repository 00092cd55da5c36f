package ssh

import (
	"fmt"
	"slices"
	"time"
)

// firstExchange exchanges keys after our version and KEXINIT have been sent.
func (t *transport) firstExchange() error {
	p, err := t.firstKexInit()
	if err != nil {
		return err
	}
	return t.exchange(p)
}

func (t *transport) firstKexInit() ([]byte, error) {
	for {
		p, err := t.in.read()
		if err != nil {
			return nil, err
		}
		if p[0] == msgKexInit {
			return p, nil
		}
		skip, err := t.skip(p)
		if err != nil {
			return nil, err
		}
		if !skip {
			return nil, unexpected(p, msgKexInit)
		}
		if t.in.packets > 16 {
			return nil, &ProtocolError{"too many messages before KEXINIT"}
		}
	}
}

// exchange runs one key exchange, from the peer's KEXINIT to its NEWKEYS.
func (t *transport) exchange(payload []byte) error {
	// From here to NEWKEYS the peer sends nothing else, and packets are under two keys.
	batch := t.in.batch
	t.in.batch = false
	defer func() { t.in.batch = batch }()
	n, h, err := t.negotiate(slices.Clone(payload))
	if err != nil {
		return err
	}
	result, err := t.agree(n, h)
	if err != nil {
		return err
	}
	return t.changeKeys(n, result)
}

// negotiate sends our KEXINIT unless that was done, and chooses algorithms. It keeps only the hash
// of both KEXINITs: a peer may make us wait, and its KEXINIT may be long.
func (t *transport) negotiate(theirInit []byte) (n Negotiated, h exchangeHash, err error) {
	theirs, ours := new(kexInit), new(kexInit)
	if err := theirs.parse(theirInit); err != nil {
		return n, h, err
	}
	if t.exchanges == 0 {
		flag := strictClient
		if t.client {
			flag = strictServer
		}
		t.strict = slices.Contains(theirs.kex, flag)
		t.wantsExtInfo = slices.Contains(theirs.kex, extInfoClient)
		if t.strict && t.in.packets != 1 {
			return n, h, &ProtocolError{"KEXINIT was not the first message"}
		}
	} else if t.login && t.exchanges >= loginExchanges {
		return n, h, &ProtocolError{"too many key exchanges before the login"}
	}
	o := t.out
	o.mu.Lock()
	o.finish()
	o.startKex()
	err = o.flushLocked()
	ourInit := o.sent
	o.mu.Unlock()
	if err != nil {
		return n, h, err
	}
	if err := ours.parse(ourInit); err != nil {
		return n, h, err
	}
	clientInit, serverInit := ours, theirs
	heads := [][]byte{t.ours, t.theirs, ourInit, theirInit}
	if !t.client {
		clientInit, serverInit = theirs, ours
		heads = [][]byte{t.theirs, t.ours, theirInit, ourInit}
	}
	if n, err = chooseAlgorithms(clientInit, serverInit, t.client); err != nil {
		return n, h, err
	}
	spec := kexNamed(n.KeyExchange)
	if spec == nil {
		return n, h, fmt.Errorf("ssh: the key exchange %s is not implemented", n.KeyExchange)
	}
	h = exchangeHash{spec.hash.New()}
	for _, part := range heads {
		h.add(part)
	}
	if guessedWrong(ours, theirs) {
		_, err = t.in.read()
	}
	return n, h, err
}

// agree agrees on a secret, and checks or proves the server's identity.
func (t *transport) agree(n Negotiated, h exchangeHash) (*kexResult, error) {
	method := kexNamed(n.KeyExchange).method()
	if t.client {
		began := time.Now()
		reply, result, err := method.client(t)
		if err != nil {
			return nil, err
		}
		t.recordRoundTrip(time.Since(began))
		h.finish(reply.hostKey, result)
		return result, t.checkHostKey(reply, result, n.HostKey)
	}
	return method.server(t, func(result *kexResult) (*kexReply, error) {
		signer := hostSigner(t.hostKeys, n.HostKey)
		if signer == nil {
			return nil, fmt.Errorf("ssh: no host key for %s", n.HostKey)
		}
		reply := &kexReply{hostKey: signer.PublicKey().Marshal()}
		h.finish(reply.hostKey, result)
		s, err := sign(signer, result.hash, n.HostKey)
		if err != nil {
			return nil, err
		}
		reply.signature = appendSignature(nil, s)[lengthSize:]
		return reply, nil
	})
}

// changeKeys derives the new keys, and exchanges NEWKEYS: RFC 4253, sections 7.2 and 7.3.
func (t *transport) changeKeys(n Negotiated, result *kexResult) error {
	first := t.exchanges == 0
	if first {
		t.session = result.hash
	}
	hash := kexNamed(n.KeyExchange).hash
	newCipher := func(way int) (packetCipher, error) {
		c := cipherNamed(n.Ciphers[way])
		return c.newCipher(result.keys(hash, t.session, c, macNamed(n.MACs[way]), way))
	}
	sealer, err := newCipher(t.way())
	if err != nil {
		return err
	}
	opener, err := newCipher(1 - t.way())
	if err != nil {
		return err
	}
	o := t.out
	o.mu.Lock()
	t.negotiated = n
	o.mu.Unlock()
	var follow [][]byte
	switch {
	case first && !t.client && t.wantsExtInfo:
		follow = append(follow, appendExtInfo(nil, SignatureAlgos))
	case first && t.client && t.afterNewKeys != nil:
		if follow, err = t.afterNewKeys(); err != nil {
			return err
		}
	}
	began := time.Now()
	if err := o.newKeys(sealer, t.deflater(n), t.strict, follow); err != nil {
		return err
	}
	p, err := t.kexMessage(msgNewKeys)
	if err != nil {
		return err
	}
	if len(p) != 1 {
		return &ProtocolError{"NEWKEYS has trailing data"}
	}
	if t.in.next < len(t.in.queue) || t.in.need > 0 { // opened or measured together with NEWKEYS
		return &ProtocolError{"a packet under the old keys after NEWKEYS"}
	}
	if !t.client {
		t.recordRoundTrip(time.Since(began)) // includes the client's checks, and maybe a person
	}
	t.in.setOpener(opener)
	t.in.inflater = t.inflater(n)
	if t.strict {
		t.in.seq = 0
	}
	o.mu.Lock()
	o.sent = nil
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
	if t.nextRekey != nil {
		t.nextRekey.Reset(t.rekeyAfter)
	}
	t.exchanges++
	o.mu.Unlock()
	return nil
}

// kexMessage reads the next message of an exchange. With strict key exchange nothing else may come
// during the first one: that prevents Terrapin (CVE-2023-48795).
func (t *transport) kexMessage(want byte) ([]byte, error) {
	for {
		p, err := t.in.read()
		if err != nil {
			return nil, err
		}
		if p[0] == want {
			return p, nil
		}
		if !(t.strict && t.exchanges == 0) {
			if skip, err := t.skip(p); err != nil {
				return nil, err
			} else if skip {
				if t.ignored++; t.login && t.ignored > loginPackets {
					return nil, &ProtocolError{"too many messages during a key exchange"}
				}
				continue
			}
			// RFC 4253, section 7.1, forbids this, but asyncssh sent data between its KEXINIT and
			// its NEWKEYS until 2023, and OpenSSH accepts it.
			if t.late != nil && p[0] >= msgGlobalRequest && p[0] <= msgChannelFailure {
				if err := t.late(p); err != nil {
					return nil, err
				}
				continue
			}
		} else if p[0] == msgDisconnect {
			_, err := t.skip(p)
			return nil, err
		}
		return nil, unexpected(p, want)
	}
}
