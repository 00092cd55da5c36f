//go:build unix

package dial

import (
	"os"
	"testing"
)

// TestOverXcrypto runs what logs in once more over x/crypto/ssh: what a caller sees must be the
// same.
func TestOverXcrypto(t *testing.T) {
	// Not t.Setenv: some of these run beside each other. What else does waits until all have ended.
	old, was := os.LookupEnv(stackEnv)
	os.Setenv(stackEnv, "xcrypto")
	t.Cleanup(func() {
		if os.Unsetenv(stackEnv); was {
			os.Setenv(stackEnv, old)
		}
	})
	for _, test := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"PasswordIsAskedOnce", TestPasswordIsAskedOnce},
		{"PasswordPrompts", TestPasswordPrompts},
		{"NobodyToAsk", TestNobodyToAsk},
		{"PersonLeaves", TestPersonLeaves},
		{"KeyboardInteractivePassword", TestKeyboardInteractivePassword},
		{"KeyboardInteractiveWithoutQuestions", TestKeyboardInteractiveWithoutQuestions},
		{"OneTimeCode", TestOneTimeCode},
		{"TwoSteps", TestTwoSteps},
		{"PassphraseOnlyWhenWanted", TestPassphraseOnlyWhenWanted},
		{"UnusableKeys", TestUnusableKeys},
		{"Banner", TestBanner},
		{"QuestionlessInstruction", TestQuestionlessInstruction},
		{"ChangedKeyOnTheWire", TestChangedKeyOnTheWire},
		{"NoCommonAlgorithm", TestNoCommonAlgorithm},
		{"SubsystemRefused", TestSubsystemRefused},
		{"ConcurrentDials", TestConcurrentDials},
		{"LoginsBesideTheFirstWaitForIt", TestLoginsBesideTheFirstWaitForIt},
		{"LoginsBesideOneThatFailsOfferNothing", TestLoginsBesideOneThatFailsOfferNothing},
		{"LoginsBesideOneThatNeedsItsPerson", TestLoginsBesideOneThatNeedsItsPerson},
		{"LoginLikelyIsToldOnce", TestLoginLikelyIsToldOnce},
		{"End", TestEnd},
		{"Death", TestDeath},
		{"SilentServers", TestSilentServers},
		{"CancelledLogin", TestCancelledLogin},
		{"ThinkingPerson", TestThinkingPerson},
		{"ServerAlive", TestServerAlive},
		{"CloseOfDeadStream", TestCloseOfDeadStream},
		{"Keepalive", TestKeepalive},
		{"Keys", TestKeys},
		{"Agent", TestAgent},
		{"UserCertificate", TestUserCertificate},
		{"TooManyKeys", TestTooManyKeys},
		{"Native", TestNative},
		{"Packets", TestPackets},
		{"ManyStreams", TestManyStreams},
		{"NoSubsystem", TestNoSubsystem},
		{"HostCertificateOnTheWire", TestHostCertificateOnTheWire},
		{"KnownTypeFirst", TestKnownTypeFirst},
		{"AcceptNewOnTheWire", TestAcceptNewOnTheWire},
		{"Jump", TestJump},
		{"ProxyCommand", TestProxyCommand},
		{"NotSSH", TestNotSSH},
	} {
		t.Run(test.name, test.run)
	}
}

// TestStackOfAnotherName: what chooses a transport is not guessed.
func TestStackOfAnotherName(t *testing.T) {
	_, err := New(testContext(t), Target{Host: "h"}, &Config{ConfigFile: "none",
		Env: append(withoutSSH(t.TempDir()), stackEnv+"=openssl")})
	if err == nil || err.Error() !=
		`h: the environment variable USFTP_SSH_STACK is "openssl"; the only valid value is xcrypto` {
		t.Errorf("got %v", err)
	}
}
