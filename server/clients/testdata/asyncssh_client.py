"""One operation with asyncssh: port, key file, operation, arguments."""
import asyncio
import os
import sys

import asyncssh

port, key, operation, *args = sys.argv[1:]


async def show(sftp, path):
    print("\n".join(await sftp.listdir(path)))


async def resume_put(sftp, local, remote):
    with open(local, "rb") as source:
        async with sftp.open(remote, "ab") as target:
            source.seek((await sftp.stat(remote)).size)
            while data := source.read(100_000):
                await target.write(data)


async def resume_get(sftp, remote, local):
    with open(local, "ab") as target:
        async with sftp.open(remote, "rb") as source:
            await source.seek(target.tell())
            while data := await source.read(100_000):
                target.write(data)


async def main():
    async with asyncssh.connect("127.0.0.1", int(port), username="u", client_keys=[key], known_hosts=None,
                                rekey_bytes=int(os.environ.get("REKEY_BYTES", 1 << 30))) as connection:
        async with connection.start_sftp_client() as sftp:
            operations = {
                "put": sftp.put,
                "get": sftp.get,
                "resume-put": lambda source, target: resume_put(sftp, source, target),
                "resume-get": lambda source, target: resume_get(sftp, source, target),
                "put-tree": lambda source, target: sftp.put(source, target, recurse=True),
                "get-tree": lambda source, target: sftp.get(source, target, recurse=True),
                "list": lambda path: show(sftp, path),
                "rename": sftp.rename,
                "symlink": sftp.symlink,
                "link": sftp.link,
                "chmod": lambda mode, path: sftp.chmod(path, int(mode, 8)),
                "copy": sftp.copy,
            }
            await operations[operation](*args)


asyncio.run(main())
