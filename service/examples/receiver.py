#!/usr/bin/env python3
# Prints each event that usftpd posts and that is signed with the secret in a file: receiver.py FILE PORT
#
#   [[hooks]]
#   name = "receiver"
#   on = ["uploaded", "removed"]
#   url = "http://127.0.0.1:8080/"
#   secret = "hook.secret"     # made with: openssl rand -hex 32 >hook.secret; chmod 600 hook.secret
import base64, hashlib, hmac, http.server, sys
secret = open(sys.argv[1], "rb").read().strip()
class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        signed = "{Webhook-Id}.{Webhook-Timestamp}.".format_map(self.headers).encode() + body
        digest = base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)).decode()
        good = hmac.compare_digest("v1," + digest, self.headers["Webhook-Signature"] or "")
        if good: print(body.decode(), flush=True)
        self.send_response(204 if good else 403); self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[2])), Receiver).serve_forever()
