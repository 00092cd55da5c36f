# Twisted Conch's server with its files for Unix users, all as the user who runs it.
import sys, threading
from twisted.conch.checkers import SSHPublicKeyChecker
from twisted.conch.ssh.factory import SSHFactory
from twisted.conch.ssh.keys import Key
from twisted.conch.unix import UnixConchUser
from twisted.cred.portal import Portal
from twisted.internet import reactor
from twisted.python.filepath import FilePath

at = sys.argv[1]


class User(UnixConchUser):
    def getHomeDir(self):
        return FilePath(at + "/files")  # the class has a string, and its server wants a FilePath

    def _runAsUser(self, f, *args, **kw):
        todo = f if hasattr(f, "__iter__") else [(f, args, kw)]
        for one in todo:
            result = one[0](*(one[1] if len(one) > 1 else ()), **(one[2] if len(one) > 2 else {}))
        return result

    def logout(self):
        pass


class Realm:
    def requestAvatar(self, name, mind, *interfaces):
        user = User(name.decode())
        return interfaces[0], user, user.logout


class Everybody:
    def getAuthorizedKeys(self, name):
        return [Key.fromFile(at + "/id.pub")]


factory = SSHFactory()
key = Key.fromFile(at + "/host")
factory.privateKeys = {key.sshType(): key}
factory.publicKeys = {key.sshType(): key.public()}
factory.getPrimes = lambda: None
factory.portal = Portal(Realm(), [SSHPublicKeyChecker(Everybody())])
port = reactor.listenTCP(0, factory, interface="127.0.0.1")
print("PORT", port.getHost().port, flush=True)


def wait():
    sys.stdin.read()
    reactor.callFromThread(reactor.stop)


threading.Thread(target=wait, daemon=True).start()
reactor.run(installSignalHandlers=False)
