"""Has paramiko's tests talk to the program $SERVER in place of paramiko's own SFTP server."""

import os
import subprocess
import threading

import paramiko


class OtherServer(paramiko.SubsystemHandler):
    def __init__(self, channel, name, server, *_):
        super().__init__(channel, name, server)
        self.child = subprocess.Popen([os.environ["SERVER"]], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, bufsize=0)

    def start_subsystem(self, name, transport, channel):
        def down():
            while data := self.child.stdout.read(1 << 16):
                channel.sendall(data)
            channel.close()

        threading.Thread(target=down, daemon=True).start()
        while data := channel.recv(1 << 16):
            self.child.stdin.write(data)

    def finish_subsystem(self):
        self.child.stdin.close()
        self.child.wait()
        super().finish_subsystem()


paramiko.SFTPServer = OtherServer


def pytest_runtest_logreport(report):
    # A test's set-up and end have reports too, which count where they fail.
    if not report.skipped and (report.when == "call" or report.failed):
        with open(os.environ["RESULTS"], "a") as results:
            name = report.nodeid.split("::")[-1]
            print("ok" if report.passed else "FAIL", name, file=results)
