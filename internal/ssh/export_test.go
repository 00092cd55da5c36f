package ssh

// Grown returns by how much a connection's windows have grown.
func Grown(c *Conn) int64 {
	c.mux.growth.mu.Lock()
	defer c.mux.growth.mu.Unlock()
	return c.mux.growth.taken
}

// RekeyAndGoOn starts a key exchange and lets data follow our KEXINIT under the old keys, which RFC
// 4253, section 7.1, forbids but asyncssh did.
func RekeyAndGoOn(c *Conn) error {
	o := c.t.out
	o.mu.Lock()
	defer o.mu.Unlock()
	o.finish()
	o.startKex()
	o.kexing = false
	return o.flushLocked()
}
