#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A self-checkpointing job of HTCondor, with your program in the place of ./app: each hour it ends with 85,
# and HTCondor starts it again, here or elsewhere, with the image. docs/batch-systems.md has job.sub.

if [ -e image ]; then
    cr_restart --keep-output --run-on-success "echo \$CRYO_PID > saved" image &
else
    cr_run ./app &
    echo $! > saved
fi
program=$!
while :; do
    sleep "${1:-3600}" &
    timer=$!
    wait -n # for either of them
    if ! kill -0 $program 2> /dev/null; then
        kill $timer 2> /dev/null
        wait $program
        exit
    fi
    if cr_checkpoint --kill --clobber -f image "$(cat saved)"; then
        wait $program
        exit 85
    fi
done
