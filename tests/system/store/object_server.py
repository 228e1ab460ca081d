#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An S3 server for tests: OpenStack Swift with its S3 interface, on loopback, in one process.

    object_server.py DIRECTORY [--port N] [--bucket NAME] [--certificate FILE --key FILE]

All data are in DIRECTORY, so a server that was killed goes on where it was when it is started again with the same
directory and port. The line "ready PORT" on standard output says that it listens.
"""
import argparse
import os
import socket
import sys

import eventlet
import eventlet.wsgi

eventlet.monkey_patch()

from swift.common import utils  # noqa: E402 the rest of Swift comes after this is set

utils.HASH_PATH_PREFIX, utils.HASH_PATH_SUFFIX = b"", b"cryo"

from paste.deploy import loadapp  # noqa: E402
from swift.common.ring import RingBuilder  # noqa: E402
from swift.common.swob import Request  # noqa: E402

ACCESS, SECRET = "test:tester", "a/secret+of=the:tests"
STRANGER, STRANGERS_SECRET = "test:stranger", "another-secret"
REGION = "eu-test-1"

PROXY = """
[DEFAULT]
swift_dir = {top}
log_name = proxy
[pipeline:main]
pipeline = s3api tempauth copy slo dlo proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
{patience}
[filter:tempauth]
use = egg:swift#tempauth
user_test_tester = {secret} .admin
user_test_stranger = {strangers_secret}
[filter:s3api]
use = egg:swift#s3api
min_segment_size = 1
location = {region}
[filter:copy]
use = egg:swift#copy
[filter:slo]
use = egg:swift#slo
[filter:dlo]
use = egg:swift#dlo
"""

BACKEND = """
[DEFAULT]
swift_dir = {top}
devices = {top}/devices
mount_check = false
disable_fallocate = true
[pipeline:main]
pipeline = {kind}-server
[app:{kind}-server]
use = egg:swift#{kind}
{patience}
"""

# A machine that stands still for a moment is no node that has failed. After a second an object would be stored
# before it is listed.
PATIENCE = """
node_timeout = 20
conn_timeout = 20
container_update_timeout = 20
"""


class Cache:
    """What Swift otherwise asks memcached for."""

    def __init__(self, app):
        self.app = app
        self.values = {}

    def __call__(self, environ, start_response):
        environ["swift.cache"] = self
        return self.app(environ, start_response)

    def get(self, key, **_):
        return self.values.get(key)

    def set(self, key, value, **_):
        self.values[key] = value

    def delete(self, key, **_):
        self.values.pop(key, None)


def listen(port=0):
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("127.0.0.1", port))
    made.listen(50)
    return made


def make_ring(top, kind, port):
    builder = RingBuilder(1, 1, 0)
    builder.add_dev({"id": 0, "region": 1, "zone": 1, "weight": 1, "ip": "127.0.0.1", "port": port, "device": "disk"})
    builder.rebalance()
    builder.get_ring().save(os.path.join(top, kind + ".ring.gz"))


def load(top, name, text):
    path = os.path.join(top, name + ".conf")
    with open(path, "w") as file:
        file.write(text)
    return loadapp("config:" + path, global_conf={"log_level": "WARNING"})


def make_bucket(app, name):
    asked = {"X-Auth-User": ACCESS, "X-Auth-Key": SECRET}
    token = Request.blank("/auth/v1.0", headers=asked).get_response(app).headers["X-Auth-Token"]
    made = Request.blank(f"/v1/AUTH_test/{name}", method="PUT", headers={"X-Auth-Token": token}).get_response(app)
    if made.status_int // 100 != 2:
        raise RuntimeError(f"no bucket: {made.status} {made.body}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("directory")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--bucket")
    parser.add_argument("--certificate")
    parser.add_argument("--key")
    wanted = parser.parse_args()
    top = os.path.abspath(wanted.directory)
    os.makedirs(os.path.join(top, "devices", "disk"), exist_ok=True)

    serving = []
    for kind in "account", "container", "object":
        at = listen()
        make_ring(top, kind, at.getsockname()[1])
        serving.append((at, load(top, kind, BACKEND.format(top=top, kind=kind, patience=PATIENCE))))
    front = listen(wanted.port)
    port = front.getsockname()[1]
    proxy = Cache(load(top, "proxy", PROXY.format(top=top, secret=SECRET, strangers_secret=STRANGERS_SECRET,
                                                  region=REGION, patience=PATIENCE)))
    if wanted.certificate:
        front = eventlet.wrap_ssl(front, certfile=wanted.certificate, keyfile=wanted.key, server_side=True)
    serving.append((front, proxy))

    quiet = open(os.devnull, "w")
    threads = [eventlet.spawn(eventlet.wsgi.server, at, app, quiet) for at, app in serving]
    if wanted.bucket:
        make_bucket(proxy, wanted.bucket)
    print("ready", port, flush=True)
    for thread in threads:
        thread.wait()


if __name__ == "__main__":
    sys.exit(main())
