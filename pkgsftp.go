package usftp

// The options of github.com/pkg/sftp that have no meaning here, so that programs written for it
// compile.

func nothing(*options) {}

// UseConcurrentWrites has no effect.
//
// Deprecated: writes are pipelined, and the bytes they count are safe.
func UseConcurrentWrites(bool) ClientOption { return nothing }

// UseConcurrentReads has no effect.
//
// Deprecated: reads are pipelined.
func UseConcurrentReads(bool) ClientOption { return nothing }

// UseFstat has no effect.
//
// Deprecated: the size is asked for along with the data.
func UseFstat(bool) ClientOption { return nothing }

// MaxConcurrentRequestsPerFile has no effect.
//
// Deprecated: the link determines how much is in flight; [WithMaxInFlight] limits it.
func MaxConcurrentRequestsPerFile(int) ClientOption { return nothing }

// MaxPacket is WithMaxPacket.
//
// Deprecated: use [WithMaxPacket], or leave it out, since the server is asked.
func MaxPacket(size int) ClientOption { return WithMaxPacket(size) }

// MaxPacketChecked is WithMaxPacket.
//
// Deprecated: use [WithMaxPacket], or leave it out, since the server is asked.
func MaxPacketChecked(size int) ClientOption { return WithMaxPacket(size) }

// MaxPacketUnchecked is WithMaxPacket.
//
// Deprecated: use [WithMaxPacket], or leave it out, since the server is asked.
func MaxPacketUnchecked(size int) ClientOption { return WithMaxPacket(size) }
