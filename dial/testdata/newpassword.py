"""An SSH server that wants a new password: argv has the old one, and how often a new one is taken to
be bad. Its output is its port, and then a line for each password that it gets."""
import asyncio
import sys

import asyncssh

old, bad = sys.argv[1], int(sys.argv[2])


class Server(asyncssh.SSHServer):
    current, expired, refusals = old, True, 0

    def begin_auth(self, username):
        return True

    def password_auth_supported(self):
        return True

    def validate_password(self, username, password):
        print("password", password, flush=True)
        if password != Server.current:
            return False
        if Server.expired:
            raise asyncssh.PasswordChangeRequired("Your password has expired.\x1b[2J")
        return True

    def change_password(self, username, old_password, new_password):
        print("change", old_password, new_password, flush=True)
        if old_password != Server.current:
            return False
        if Server.refusals < bad:
            Server.refusals += 1
            raise asyncssh.PasswordChangeRequired("That one is too short.")
        Server.current, Server.expired = new_password, False
        return True


async def main():
    server = await asyncssh.listen(
        "127.0.0.1", 0, server_factory=Server, sftp_factory=True,
        server_host_keys=[asyncssh.generate_private_key("ssh-ed25519")])
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.wait_closed()


asyncio.run(main())
