package sshd

import "testing"

func TestDraftSymlinks(t *testing.T) {
	for client, want := range map[string]bool{
		"SSH-2.0-AsyncSSH_2.24.1":           true,
		"SSH-2.0-libssh_0.10.6":             true,
		"SSH-2.0-libssh-0.5.2":              true,
		"SSH-2.0-ssh2js1.17.0":              true,
		"SSH-2.0-WinSCP_release_6.3.5":      true,
		"SSH-2.0-libssh2_1.11.0":            false,
		"SSH-2.0-OpenSSH_10.0":              false,
		"SSH-2.0-paramiko_3.4.0":            false,
		"SSH-2.0-PuTTY_Release_0.83":        false,
		"SSH-2.0-Go":                        false,
		"SSH-2.0-JSCH_2.27.3":               false,
		"SSH-2.0-APACHE-SSHD-2.16.0":        false,
		"SSH-2.0-TrileadSSH2Java_213":       false,
		"SSH-2.0-FileZilla_3.69.3":          false,
		"SSH-2.0-SSHJ_0.40.0":               false,
		"SSH-2.0-phpseclib_3.0 (openssl)":   false,
		"SSH-2.0-Ruby/Net::SSH_7.3.0 linux": false,
		"SSH-2.0-russh_0.54.0":              false,
		"":                                  false,
	} {
		if got := draftSymlinks(client); got != want {
			t.Errorf("%q: %v", client, got)
		}
	}
}
