"""One operation with paramiko: port, key file, operation, arguments."""
import os
import sys

import paramiko

port, key, operation, *args = sys.argv[1:]
client = paramiko.SSHClient()
client.set_missing_host_key_policy(paramiko.AutoAddPolicy())
# A key that is refused comes first, as where ~/.ssh has several.
client.connect("127.0.0.1", int(port), "u", pkey=paramiko.ECDSAKey.generate(), key_filename=key,
               allow_agent=False, look_for_keys=False, banner_timeout=300, auth_timeout=300)
if "REKEY_BYTES" in os.environ:
    client.get_transport().packetizer.REKEY_BYTES = int(os.environ["REKEY_BYTES"])
sftp = client.open_sftp()


def put_tree(local, remote):
    sftp.mkdir(remote)
    for entry in sorted(os.listdir(local)):
        source, target = os.path.join(local, entry), remote + "/" + entry
        put_tree(source, target) if os.path.isdir(source) else sftp.put(source, target)


def get_tree(remote, local):
    os.mkdir(local)
    for entry in sftp.listdir_attr(remote):
        source, target = remote + "/" + entry.filename, os.path.join(local, entry.filename)
        get_tree(source, target) if entry.st_mode & 0o40000 else sftp.get(source, target)


def resume_put(local, remote):
    with open(local, "rb") as source, sftp.open(remote, "ab") as target:
        target.set_pipelined(True)
        source.seek(sftp.stat(remote).st_size)
        while data := source.read(100_000):
            target.write(data)


def resume_get(remote, local):
    with sftp.open(remote, "rb") as source, open(local, "ab") as target:
        source.seek(target.tell())
        source.prefetch()
        while data := source.read(100_000):
            target.write(data)


operations = {
    "put": sftp.put,
    "get": sftp.get,
    "resume-put": resume_put,
    "resume-get": resume_get,
    "put-tree": put_tree,
    "get-tree": get_tree,
    "list": lambda path: print("\n".join(sftp.listdir(path))),
    "rename": sftp.rename,
    "symlink": sftp.symlink,
    "chmod": lambda mode, path: sftp.chmod(path, int(mode, 8)),
}
operations[operation](*args)
client.close()
