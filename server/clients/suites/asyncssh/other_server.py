"""Runs asyncssh's tests of its SFTP and SCP clients against another server.

With $TARGET serve they log in to $USFTP serve, else to asyncssh's SSH server, which runs $SERVER in
place of its own code.
"""

import asyncio
import os
import re
import shutil
import signal
import sys
import unittest

import asyncssh
import asyncssh.stream

from tests import test_sftp

# Gigabytes, single bytes, and a request that sftp-server never answers.
LEFT_OUT = {"test_sparse_copy", "test_copy_max_requests", "test_unknown_request"}


async def run_sftp_server(_server, stdin, stdout, _version):
    child = await asyncio.create_subprocess_exec(os.environ["SERVER"], stdin=-1, stdout=-1)

    async def up():
        while data := await stdin.read(1 << 16):
            child.stdin.write(data)
            await child.stdin.drain()

    def end(task):
        task.cancelled() or task.exception()
        child.stdin.close()

    task = asyncio.ensure_future(up())
    task.add_done_callback(end)
    try:
        while data := await child.stdout.read(1 << 16):
            stdout.write(data)
            await stdout.drain()
    except (asyncssh.Error, OSError):
        pass
    task.cancel()
    stdout.channel.exit(await child.wait())


class Serve:
    """usftp serve, with what the tests want from a listening server."""

    def __init__(self, child, port):
        self.child, self.port, self.sockets = child, port, [self]

    def getsockname(self):
        return "127.0.0.1", self.port

    def close(self):
        self.child.kill()

    async def wait_closed(self):
        await self.child.wait()


async def start_serve():
    child = await asyncio.create_subprocess_exec(
        os.environ["USFTP"], "serve", "--listen", "127.0.0.1:0", "--user", "guest", "--log-level",
        "error", "--authorized-keys", "ckey_ecdsa.pub", "--host-key", "skey", ".", stdout=-1)
    while line := await child.stdout.readline():
        if found := re.search(rb"127\.0\.0\.1:(\d+)", line):
            return Serve(child, int(found[1]))
    raise OSError("usftp serve did not start")


class Cleaned:
    """A test that fails leaves nothing to those that follow."""

    def setUp(self):
        super().setUp()
        self.before = set(os.listdir())

    def tearDown(self):
        for name in set(os.listdir()) - self.before:
            if os.path.isdir(name) and not os.path.islink(name):
                shutil.rmtree(name)
            else:
                os.remove(name)
        super().tearDown()


class TestSFTP(Cleaned, test_sftp._TestSFTP):
    pass


class TestSCP(Cleaned, test_sftp._TestSCP):
    pass


if os.environ["TARGET"] == "serve":
    TestSFTP.start_server = TestSCP.start_server = staticmethod(start_serve)
else:
    asyncssh.stream.run_sftp_server = run_sftp_server
    # The client goes by the server's name in what order it sends the arguments of SYMLINK.
    listen = asyncssh.listen
    asyncssh.listen = lambda **kwargs: listen(server_version="OpenSSH_stand_in", **kwargs)


class TooLong(Exception):
    """A test that waits for an answer that does not come."""


def too_long(*_):
    raise TooLong


signal.signal(signal.SIGALRM, too_long)


class Result(unittest.TextTestResult):
    def startTest(self, test):
        self.right = True
        signal.alarm(60)
        super().startTest(test)

    def addFailure(self, test, err):
        self.right = False
        super().addFailure(test, err)

    def addError(self, test, err):
        self.right = False
        super().addError(test, err)

    def addSubTest(self, test, subtest, err):
        self.right = self.right and err is None
        super().addSubTest(test, subtest, err)

    def stopTest(self, test):
        signal.alarm(0)
        super().stopTest(test)
        with open(os.environ["RESULTS"], "a") as results:
            print("ok" if self.right else "FAIL", test.id().removeprefix("__main__."), file=results)


suite = unittest.TestSuite()
for case in (TestSFTP, TestSCP) if os.environ["TARGET"] == "serve" else (TestSFTP,):
    for name in unittest.defaultTestLoader.getTestCaseNames(case):
        # Those of later versions of SFTP speak to asyncssh's own server only.
        if name not in LEFT_OUT and not re.search(r"_v[456]$", name):
            suite.addTest(case(name))
unittest.TextTestRunner(resultclass=Result, verbosity=2).run(suite)
sys.stdout.flush()
sys.stderr.flush()
os._exit(0)  # not waiting for tasks of tests that failed
