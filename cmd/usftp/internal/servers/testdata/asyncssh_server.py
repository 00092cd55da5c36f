# AsyncSSH's server, as its documentation starts one.
import asyncio, sys, asyncssh

async def main():
    at = sys.argv[1]
    server = await asyncssh.listen("127.0.0.1", 0, server_host_keys=[at + "/host"],
                                   authorized_client_keys=at + "/authorized_keys", sftp_factory=True)
    print("PORT", server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)

asyncio.run(main())
