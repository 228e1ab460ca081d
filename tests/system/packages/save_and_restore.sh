#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Saves a program that counts, ends it, and brings it back: with the packages that are installed, as
# a plain user, in an empty directory.
#
#     save_and_restore.sh DIRECTORY COUNTER
set -e
cd "$1"
cr_run "$2" word >output 2>errors </dev/null &
program=$!
until grep -q counting output; do
    kill -0 $program || { cat errors && exit 1; }
    sleep 0.05
done
cr_checkpoint --backend user --kill -f context $program
wait $program || true
cr_inspect --verify context
touch go
cr_restart --no-restore-pid context </dev/null
grep -x 'word counted' output
