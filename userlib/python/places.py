# SPDX-License-Identifier: Apache-2.0
"""For the build: where Python.h is; where modules below a prefix are, relative to it.

    places.py PREFIX
"""
import os
import sys
import sysconfig

prefix = sys.argv[1]
schemes = sysconfig.get_scheme_names()
if "deb_system" in schemes and prefix == "/usr":
    base, scheme = "/usr", "deb_system"
elif "posix_local" in schemes:
    base, scheme = "/usr/local", "posix_local"
else:
    base, scheme = sys.base_prefix, "posix_prefix"
variables = {"base": sys.base_prefix, "platbase": sys.base_prefix} if scheme != "posix_prefix" else None
modules = os.path.relpath(sysconfig.get_path("platlib", scheme, variables), base)
print(sysconfig.get_path("include"), modules, sep=";")
