# SPDX-License-Identifier: Apache-2.0
"""The file servers of a run. The one part of scripts/vm that needs root, so a program of its own.

Started as `[sudo] python3 shares.py`. The first line on stdin is a JSON object:

    {"run": DIR, "out": DIR or null, "uid": N, "gid": N, "log": FILE,
     "shares": [{"socket": PATH, "what": "root" or "run"}, …]}

"root" serves / in a mount namespace where everything is read-only; "run" serves the run's control
directory, with `out` bound into it. It prints "ready" when QEMU may connect. When stdin closes,
because the harness ended or died, the servers are killed and the run's directory is deleted.
"""

import ctypes
import json
import os
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys

VIRTIOFSD = "/usr/lib/qemu/virtiofsd"

_libc = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNS = 0x20000
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000
_SYS_MOUNT_SETATTR = 442
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_MOUNT_ATTR_RDONLY = 1
_PR_SET_PDEATHSIG = 1


def _check(result, what):
    if result != 0:
        error = ctypes.get_errno()
        os.write(2, f"{what}: {os.strerror(error)}\n".encode())
        os._exit(1)


def _own_mounts():
    _libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    _check(_libc.unshare(_CLONE_NEWNS), "new mount namespace")
    _check(_libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None), "private mounts")


def _read_only():
    _own_mounts()
    attributes = (ctypes.c_uint64 * 4)(_MOUNT_ATTR_RDONLY, 0, 0, 0)
    _check(_libc.syscall(_SYS_MOUNT_SETATTR, _AT_FDCWD, b"/", _AT_RECURSIVE, attributes,
                         ctypes.sizeof(attributes)), "making everything read-only")


def _with_out(run, out):
    def prepare():
        _own_mounts()
        if out:
            place = os.path.join(run, "out")
            _check(_libc.mount(out.encode(), place.encode(), None, _MS_BIND, None),
                   f"sharing {out}")
    return prepare


def _serve(share, order, log):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(share["socket"])
    os.chown(share["socket"], order["uid"], order["gid"])
    listener.listen(1)
    if share["what"] == "root":
        source, cache, prepare = "/", "cache=always", _read_only
    else:
        # Several nodes write here and must see each other's files.
        source, cache, prepare = order["run"], "cache=none", _with_out(order["run"], order["out"])
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    daemon = subprocess.Popen(
        [VIRTIOFSD, "-f", f"--fd={listener.fileno()}", f"--rlimit-nofile={files}",
         "-o", f"source={source}", "-o", "sandbox=chroot", "-o", "xattr", "-o", "log_level=err",
         "-o", cache],
        stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[listener.fileno()],
        preexec_fn=prepare)
    listener.close()
    return daemon


def main():
    """Serves until stdin closes."""
    # Closed stdin is the sign to end, whatever else the harness and its terminal get.
    for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sig, signal.SIG_IGN)
    order = json.loads(sys.stdin.readline())
    daemons = []
    try:
        with open(order["log"], "ab") as log:
            daemons = [_serve(share, order, log) for share in order["shares"]]
        print("ready", flush=True)
        while select.select([sys.stdin], [], []) and sys.stdin.read(1):
            pass
    finally:
        for daemon in daemons:
            daemon.kill()
            daemon.wait()
        shutil.rmtree(order["run"], ignore_errors=True)


if __name__ == "__main__":
    main()
