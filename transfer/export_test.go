package transfer

// Held returns how many bytes a Shared's blocks take.
func (s *Shared) Held() int64 { return s.pool.Out() }
