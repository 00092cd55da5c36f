"""One operation with asyncssh: port, key file, operation, arguments."""
import asyncio
import sys

import asyncssh

port, key, operation, *args = sys.argv[1:]


async def show(sftp, path):
    print("\n".join(await sftp.listdir(path)))


async def main():
    async with asyncssh.connect("127.0.0.1", int(port), username="u", client_keys=[key], known_hosts=None) as connection:
        async with connection.start_sftp_client() as sftp:
            operations = {
                "put": sftp.put,
                "get": sftp.get,
                "put-tree": lambda source, target: sftp.put(source, target, recurse=True),
                "get-tree": lambda source, target: sftp.get(source, target, recurse=True),
                "list": lambda path: show(sftp, path),
                "rename": sftp.rename,
                "symlink": sftp.symlink,
                "chmod": lambda mode, path: sftp.chmod(path, int(mode, 8)),
                "copy": sftp.copy,
            }
            await operations[operation](*args)


asyncio.run(main())
