package objectfs

import (
	"context"
	"io/fs"
	"strings"
	"sync"
	"time"
)

// MemoryState is a State in the memory of one process, lost when it ends. The zero MemoryState is
// ready for use.
type MemoryState struct {
	mu      sync.Mutex
	fence   int64
	uploads map[string]Upload // pending or locked
	times   map[string]Stamp
}

// Lock implements [State].
func (m *MemoryState) Lock(_ context.Context, name, target string) (Upload, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.uploads[name]
	if u.Locked {
		return Upload{}, ErrLocked
	}
	m.fence++
	u.Name, u.Fence, u.Locked = name, m.fence, true
	if u.ID == "" {
		u.Target = target
	}
	if m.uploads == nil {
		m.uploads = map[string]Upload{}
	}
	m.uploads[name] = u
	return u, nil
}

// Update implements [State].
func (m *MemoryState) Update(_ context.Context, u Upload) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := m.uploads[u.Name]; !now.Locked || now.Fence != u.Fence {
		return ErrLocked
	}
	m.uploads[u.Name] = u
	return nil
}

// Confirm implements [State].
func (m *MemoryState) Confirm(_ context.Context, u Upload) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := m.uploads[u.Name]; !now.Locked || now.Fence != u.Fence {
		return ErrLocked
	}
	return nil
}

// Settle implements [State].
func (m *MemoryState) Settle(ctx context.Context, u Upload, key string, made Stamp) error {
	if err := m.Confirm(ctx, u); err != nil {
		return err
	}
	m.mu.Lock()
	m.stamp(key, made)
	m.mu.Unlock()
	return m.Unlock(ctx, u, false)
}

// Unlock implements [State].
func (m *MemoryState) Unlock(_ context.Context, u Upload, keep bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := m.uploads[u.Name]; !now.Locked || now.Fence != u.Fence {
		return ErrLocked
	}
	if u.Locked = false; keep {
		m.uploads[u.Name] = u
	} else {
		delete(m.uploads, u.Name)
	}
	return nil
}

// Find implements [State].
func (m *MemoryState) Find(_ context.Context, name string) (Upload, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	u, ok := m.uploads[name]
	if !ok {
		return Upload{}, fs.ErrNotExist
	}
	return u, nil
}

// Waiting implements [State].
func (m *MemoryState) Waiting(_ context.Context, names ...string) (map[string]Upload, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := map[string]Upload{}
	for _, name := range names {
		if u, ok := m.uploads[name]; ok {
			found[name] = u
		}
	}
	return found, nil
}

// Pending implements [State].
func (m *MemoryState) Pending(_ context.Context, prefix string) (list []Upload, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, u := range m.uploads {
		if u.ID != "" && strings.HasPrefix(name, prefix) {
			list = append(list, u)
		}
	}
	return list, nil
}

// SetTime implements [State].
func (m *MemoryState) SetTime(_ context.Context, key, etag string, mtime time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !mtime.IsZero() || m.times[key].ETag == etag {
		m.stamp(key, Stamp{etag, mtime})
	}
	return nil
}

// stamp sets or clears the time of a key. The caller holds the lock.
func (m *MemoryState) stamp(key string, s Stamp) {
	if s.MTime.IsZero() {
		delete(m.times, key)
		return
	}
	if m.times == nil {
		m.times = map[string]Stamp{}
	}
	m.times[key] = s
}

// CopyTime implements [State].
func (m *MemoryState) CopyTime(ctx context.Context, from Object, to, etag string) error {
	times, err := m.Times(ctx, []string{from.Key})
	if err != nil {
		return err
	}
	return m.SetTime(ctx, to, etag, describe(from, times).mtime)
}

// Times implements [State].
func (m *MemoryState) Times(_ context.Context, keys []string) (map[string]Stamp, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := map[string]Stamp{}
	for _, key := range keys {
		if stamp, ok := m.times[key]; ok {
			found[key] = stamp
		}
	}
	return found, nil
}
