"""asyncssh as a client and as a server of sessions: see site_test.go and server_test.go."""
import asyncio
import sys

import asyncssh

BLOCK = 1 << 20
EVERY = dict(kex_algs="*", encryption_algs="*", mac_algs="*", signature_algs="*")


async def session(directory, port, login, mib):
    block = open(directory + "/block", "rb").read()

    class Client(asyncssh.SSHClient):
        def kbdint_auth_requested(self):
            return ""

        def kbdint_challenge_received(self, name, text, language, asked):
            return ["secret"] * len(asked)

    options = dict(EVERY, username="ann", known_hosts=None, agent_path=None, config=None,
                   server_host_key_algs="*", client_factory=Client, client_keys=None,
                   rekey_bytes=1 << 20)
    if login == "password":
        options.update(password="secret", kbdint_auth=False)
    elif login == "keyboard":
        options.update(password_auth=False)
    else:
        options.update(client_keys=[directory + "/id_" + login])
    async with asyncssh.connect("127.0.0.1", port, **options) as conn:
        process = await conn.create_process("cat; echo words >&2; exit 3", encoding=None)

        async def send():
            for _ in range(mib):
                process.stdin.write(block)
                await process.stdin.drain()
            process.stdin.write_eof()

        sender = asyncio.ensure_future(send())
        for i in range(mib):
            if await process.stdout.readexactly(BLOCK) != block:
                raise ValueError("block %d came back differently" % i)
        if await process.stdout.read(1) != b"":
            raise ValueError("more came back")
        await sender
        if await process.stderr.read() != b"words\n":
            raise ValueError("other words on standard error")
        await process.wait_closed()
        if process.exit_status != 3:
            raise ValueError("exit status %r" % process.exit_status)


async def client(directory, cases):
    for case in cases:
        name, port, login, mib = case.split(";")
        try:
            await asyncio.wait_for(session(directory, int(port), login, int(mib)), 100)
            print("ok", name, flush=True)
        except Exception as err:
            print("FAIL", name, repr(err), flush=True)


class Server(asyncssh.SSHServer):
    def password_auth_supported(self):
        return True

    def validate_password(self, user, password):
        return user == "ann" and password == "secret"

    def kbdint_auth_supported(self):
        return True

    def get_kbdint_challenge(self, user, language, submethods):
        return "", "", "", [("Password: ", False)]

    def validate_kbdint_response(self, user, answers):
        return user == "ann" and answers == ["secret"]


async def echo(process):
    while True:
        data = await process.stdin.read(1 << 15)
        if not data:
            break
        process.stdout.write(data)
        await process.stdout.drain()
    process.stderr.write(b"words\n")
    process.exit(3)


async def server(directory):
    listener = await asyncssh.listen(
        "127.0.0.1", 0, server_factory=Server, process_factory=echo, encoding=None, **EVERY,
        server_host_keys=[directory + "/host_" + kind for kind in ("ed25519", "ecdsa", "rsa")],
        authorized_client_keys=directory + "/authorized_keys", rekey_bytes=1 << 20)
    print("PORT", listener.sockets[0].getsockname()[1], flush=True)
    await asyncio.Future()


if sys.argv[1] == "client":
    asyncio.run(client(sys.argv[2], sys.argv[3:]))
else:
    asyncio.run(server(sys.argv[2]))
