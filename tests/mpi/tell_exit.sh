#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a program, and tells the exit code that it ended with by itself (nothing, when a signal ended it).
"$@"
code=$?
[ $code -lt 128 ] && echo "exit code $code"
exit $code
