"""paramiko as a client and as a server of sessions: see site_test.go and server_test.go."""
import socket
import sys
import threading

import paramiko

BLOCK = 1 << 20


def patient(transport):
    """Python takes seconds for a large group on a busy machine; paramiko gives up after 30."""
    transport.clear_to_send_timeout = 300
    transport.banner_timeout = transport.handshake_timeout = transport.auth_timeout = 300


def close_aside(channel, message):
    """paramiko's reading thread answers a CLOSE itself, and waits with the answer while keys are
    exchanged, which is the same thread's work: a CLOSE that meets its KEXINIT stops it for as long as
    it waits (github.com/paramiko/paramiko/issues/822). Another thread can wait."""
    threading.Thread(target=channel._handle_close, args=(message,), daemon=True).start()


paramiko.Transport._channel_handler_table[paramiko.common.MSG_CHANNEL_CLOSE] = close_aside


def key(kind, file):
    return {"ed25519": paramiko.Ed25519Key, "ecdsa": paramiko.ECDSAKey, "rsa": paramiko.RSAKey}[kind](
        filename=file)


def session(directory, port, login, mib):
    block = open(directory + "/block", "rb").read()
    transport = paramiko.Transport(socket.create_connection(("127.0.0.1", port)))
    patient(transport)
    transport.packetizer.REKEY_BYTES = 1 << 20
    try:
        transport.start_client(timeout=60)
        if login == "password":
            transport.auth_password("ann", "secret", fallback=False)
        elif login == "keyboard":
            transport.auth_interactive("ann", lambda name, text, asked: ["secret"] * len(asked))
        else:
            transport.auth_publickey("ann", key(login, directory + "/id_" + login))
        channel = transport.open_session()
        channel.exec_command("cat; echo words >&2; exit 3")

        def send():
            for _ in range(mib):
                channel.sendall(block)
            channel.shutdown_write()

        sender = threading.Thread(target=send, daemon=True)
        sender.start()
        stdout = channel.makefile("rb", 1 << 18)
        for i in range(mib):
            if stdout.read(BLOCK) != block:
                raise ValueError("block %d came back differently" % i)
        if stdout.read(1) != b"":
            raise ValueError("more came back")
        sender.join()
        if channel.makefile_stderr("rb").read() != b"words\n":
            raise ValueError("other words on standard error")
        if channel.recv_exit_status() != 3:
            raise ValueError("another exit status")
    finally:
        transport.close()


def client(directory, cases):
    for case in cases:
        name, port, login, mib = case.split(";")
        try:
            session(directory, int(port), login, int(mib))
            print("ok", name, flush=True)
        except Exception as err:
            print("FAIL", name, repr(err), flush=True)


class Server(paramiko.ServerInterface):
    def __init__(self, keys):
        self.keys = keys

    def get_allowed_auths(self, user):
        return "publickey,password,keyboard-interactive"

    def check_auth_password(self, user, password):
        ok = user == "ann" and password == "secret"
        return paramiko.AUTH_SUCCESSFUL if ok else paramiko.AUTH_FAILED

    def check_auth_publickey(self, user, offered):
        ok = user == "ann" and offered.get_base64() in self.keys
        return paramiko.AUTH_SUCCESSFUL if ok else paramiko.AUTH_FAILED

    def check_auth_interactive(self, user, submethods):
        return paramiko.InteractiveQuery("", "", ("Password: ", False))

    def check_auth_interactive_response(self, answers):
        return paramiko.AUTH_SUCCESSFUL if answers == ["secret"] else paramiko.AUTH_FAILED

    def check_channel_request(self, kind, number):
        return paramiko.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel, command):
        threading.Thread(target=echo, args=(channel,), daemon=True).start()
        return True


def echo(channel):
    while True:
        data = channel.recv(1 << 15)
        if not data:
            break
        channel.sendall(data)
    channel.sendall_stderr(b"words\n")
    channel.send_exit_status(3)
    channel.close()


def serve(conn, hosts, keys):
    transport = paramiko.Transport(conn)
    patient(transport)
    transport.packetizer.REKEY_BYTES = 1 << 20
    for host in hosts:
        transport.add_server_key(host)
    try:
        transport.start_server(server=Server(keys))
        transport.join()
    except Exception as err:
        print(repr(err), file=sys.stderr)


def server(directory):
    hosts = [key(kind, directory + "/host_" + kind) for kind in ("ed25519", "ecdsa", "rsa")]
    keys = [line.split()[1] for line in open(directory + "/authorized_keys")]
    paramiko.Transport.load_server_moduli()
    listener = socket.create_server(("127.0.0.1", 0))
    print("PORT", listener.getsockname()[1], flush=True)
    while True:
        conn, _ = listener.accept()
        threading.Thread(target=serve, args=(conn, hosts, keys), daemon=True).start()


if sys.argv[1] == "client":
    client(sys.argv[2], sys.argv[3:])
else:
    server(sys.argv[2])
