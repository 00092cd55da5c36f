//go:build linux || darwin

package sftpfs

import (
	"slices"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// maxNodes is the number of nodes above which the kernel is asked to forget some. The kernel keeps
// every name for as long as it has memory itself, and each takes some 450 bytes here.
const maxNodes = 32 << 10

// maxForgotten limits the nodes that the kernel is asked to forget in one round.
const maxForgotten = 256

// kernel is the server of a mount, which can ask the kernel to forget what it knows.
type kernel interface {
	// PruneNotify drops the nodes that are not in use, and leaves the others alone.
	PruneNotify(nodes []uint64) fuse.Status
	// EntryNotify drops a name, and waits while a call is under way in its directory.
	EntryNotify(dir uint64, name string) fuse.Status
	// InodeNotify drops a node's attributes if off is negative, and then waits for nothing.
	InodeNotify(node uint64, off, length int64) fuse.Status
}

func (f *FS) Init(server *fuse.Server) {
	// Since Linux 6.18. Other kernels say that they know an earlier version of the protocol.
	f.tree.prunes = server.KernelSettings().SupportsNotify(fuse.NOTIFY_PRUNE)
	f.server = server
	f.work.Go(func() { f.pruneNodes(server) })
}

// pruneNodes asks the kernel to forget nodes while there are too many. FORGET is the answer.
func (f *FS) pruneNodes(k kernel) {
	for {
		select {
		case <-f.tree.crowded:
		case <-f.ctx.Done():
			return
		}
		for nodes := f.tree.oldest(); len(nodes) > 0 && f.ctx.Err() == nil; {
			if f.tree.prunes {
				k.PruneNotify(nodes)
			} else {
				f.forgetNames(k, nodes)
			}
			nodes = f.tree.oldest()
		}
	}
}

// callPoll is how often forgetNames checks that no call is under way.
const callPoll = 10 * time.Millisecond

// forgetNames makes a kernel without PruneNotify forget nodes by their names. EntryNotify waits in
// the kernel, uninterruptibly, for calls in the directory. If this process is killed meanwhile, the
// wait never ends, and neither do those calls: the kernel ends them only when the process is gone.
// So forgetNames asks only while no call is under way.
func (f *FS) forgetNames(k kernel, nodes []uint64) {
	for _, id := range nodes {
		for f.calls.Load() > 0 {
			select {
			case <-time.After(callPoll):
			case <-f.ctx.Done():
				return
			}
		}
		if p, ok := f.tree.leavingFrom(id); ok {
			k.EntryNotify(p.dir.id, p.name) // the kernel may have dropped the name
		}
	}
}

// leavingFrom returns the name of a node that the kernel is asked to forget. By now the node may
// have another name, or the name may belong to another node.
func (t *tree) leavingFrom(id uint64) (place, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	n := t.byID[id]
	if n == nil || !n.leaving || len(n.places) != 1 {
		return place{}, false
	}
	return n.places[0], true
}

// given queues a node that the kernel was given, to be forgotten later. A kernel that forgets by
// names is not asked to forget directories: it would detach file systems mounted on them, and
// programs would lose their working directories. The caller holds the lock.
func (t *tree) given(n *node, dir bool) {
	if t.prunes || !dir {
		t.enqueue(n)
	}
}

// enqueue puts a node at the end of the queue. If the kernel was asked to forget the node, it has
// not done so. The caller holds the lock.
func (t *tree) enqueue(n *node) {
	if n.leaving {
		n.leaving = false
		t.leaving--
	}
	if n.queued {
		return
	}
	n.queued = true
	if len(t.queue) > 2*len(t.byID) {
		t.queue = slices.DeleteFunc(t.queue, func(id uint64) bool { return t.byID[id] == nil })
	}
	t.queue = append(t.queue, n.id)
	if t.tooMany() > 0 {
		select {
		case t.crowded <- struct{}{}:
		default:
		}
	}
}

// tooMany returns how many more nodes must go. The latest stay even if others, such as directories,
// cannot go: the kernel would ask for them again and again. The caller holds the lock.
func (t *tree) tooMany() int {
	return min(len(t.byID)-t.leaving-t.maxNodes, len(t.queue)-t.maxNodes/2)
}

// oldest returns nodes for the kernel to forget: those that it has known longest, except nodes in
// use.
func (t *tree) oldest() (nodes []uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.tooMany() > 0 && len(t.queue) > 0 && len(nodes) < maxForgotten {
		n := t.byID[t.queue[0]]
		t.queue = t.queue[1:]
		if n == nil {
			continue
		}
		n.queued = false
		if n.opens > 0 || n.lookups == 0 || n.removed || len(n.places) != 1 ||
			n.openFile() != nil || len(n.children) > 0 {
			continue // it is queued again when it is closed or empty, or the kernel asks for it
		}
		n.leaving = true
		t.leaving++
		nodes = append(nodes, n.id)
	}
	return nodes
}

func (n *node) isDir() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.attrs.isDir()
}
