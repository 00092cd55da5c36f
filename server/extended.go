package server

import (
	"errors"
	"strings"

	"github.com/usftp/usftp/wire"
)

// extended runs an extended request.
func (w *worker) extended(s *session, r *request) {
	ctx, v := s.ctx, s.view
	switch r.op {
	case opPosixRename:
		w.status(s, r, v.PosixRename(ctx, r.path, r.path2))
	case opHardlink:
		w.status(s, r, v.Link(ctx, r.path, r.path2))
	case opLimits:
		w.short(s, r, s.limits.Append(w.scratch[:0], r.id))
	case opStatVFS:
		reply, err := v.StatVFS(ctx, r.path)
		w.statVFS(s, r, reply, err)
	case opFstatVFS:
		reply, err := s.fstatVFS(r.handle)
		w.statVFS(s, r, reply, err)
	case opFsync:
		w.status(s, r, s.fsync(r.handle))
	case opExpandPath:
		name, err := s.expandPath(r.text)
		w.name(s, r, name, err)
	case opHomeDirectory:
		name, err := v.HomeDir(ctx, r.text)
		w.name(s, r, name, err)
	case opUsersGroups:
		w.usersGroups(s, r)
	case opCopyData:
		w.status(s, r, s.copyData(r))
	case opCheckFileHandle, opCheckFileName:
		w.checkFile(s, r)
	}
}

func (w *worker) statVFS(s *session, r *request, reply wire.StatVFSReply, err error) {
	if err != nil {
		w.status(s, r, err)
		return
	}
	w.short(s, r, reply.Append(w.scratch[:0], r.id))
}

func (s *session) fstatVFS(h *handle) (reply wire.StatVFSReply, err error) {
	if stater, ok := h.file.(FileStatVFSer); ok {
		if reply, err = stater.StatVFS(); !errors.Is(err, errors.ErrUnsupported) {
			return s.view.limitStatVFS(reply), err
		}
	}
	return s.view.statVFS(s.ctx, h.path)
}

func (s *session) fsync(h *handle) error {
	if err := h.failed(); err != nil {
		return err
	}
	syncer, ok := h.file.(FileSyncer)
	if !ok {
		return errUnsupported
	}
	return syncer.Sync()
}

// expandPath resolves a path that may begin with "~" or "~user" (OpenSSH's PROTOCOL, section 4.9).
func (s *session) expandPath(name string) (string, error) {
	if strings.HasPrefix(name, "~") {
		user, rest, _ := strings.Cut(name[1:], "/")
		home, err := s.view.HomeDir(s.ctx, user)
		if err != nil {
			return "", err
		}
		name = home + "/" + rest
	}
	return s.view.realPath(s.ctx, s.view.Path(name))
}

// usersGroups answers users-groups-by-id (OpenSSH's PROTOCOL, section 4.11).
func (w *worker) usersGroups(s *session, r *request) {
	users, groups, err := s.view.ownerNames(s.ctx, r.uids, r.gids)
	if err == nil && (len(users) != len(r.uids) || len(groups) != len(r.gids)) {
		err = &StatusError{Code: wire.Failure, Message: "the backend named too few or too many"}
	}
	if err != nil {
		w.status(s, r, err)
		return
	}
	room := wire.MaxPacket - 1024 - 4*(len(users)+len(groups))
	for _, list := range [...][]string{users, groups} {
		for i, name := range list {
			if room -= len(name); room < 0 {
				list[i] = "" // no name is better than no reply
			}
		}
	}
	w.send(s, r, wire.UsersGroupsReply{Users: users, Groups: groups}.Append(r.reply.Bytes()[:0], r.id))
}
