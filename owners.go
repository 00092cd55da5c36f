package usftp

import (
	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/wire"
)

// UsersGroups returns the names of users and groups by their numbers, in the order of the numbers,
// and "" for one that the server does not know. It needs users-groups-by-id@openssh.com (OpenSSH's
// PROTOCOL, section 4.12), or else errors.Is(err, errors.ErrUnsupported) holds. One round trip for
// any few thousand numbers.
func (c *Client) UsersGroups(uids, gids []uint32) (users, groups []string, err error) {
	names, err := run(c.ctx, c.usersGroups(uids, gids))
	return names.Users, names.Groups, err
}

func (s *session) usersGroups(uids, gids []uint32) operation[wire.UsersGroupsReply] {
	message := wire.UsersGroupsByID{UIDs: uids, GIDs: gids}
	return ask(s, "users-groups-by-id", "", wire.TypeExtendedReply, message,
		func(call *conn.Call) (r wire.UsersGroupsReply, err error) {
			if err := r.Parse(call.Body); err != nil {
				return wire.UsersGroupsReply{}, parse(err)
			}
			if len(r.Users) != len(uids) || len(r.Groups) != len(gids) {
				return wire.UsersGroupsReply{}, &ProtocolError{What: "not as many names as numbers were asked for"}
			}
			return r, nil
		}).needs(wire.ExtUsersGroupsByID)
}
