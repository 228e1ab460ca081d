#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the unit cryo@.service executes: a program that is saved while it runs, and that comes back from
# its last image.
#
#     service start     becomes the program: from the last image, or if there is none, anew
#     service stop      saves it once more
#     service ended     after its end: puts the images aside if the program has completed its work
#
# The settings are variables: those of /etc/cryo/NAME.conf, which cryo(7) has, and what systemd.exec(5)
# describes: STATE_DIRECTORY, MAINPID, SERVICE_RESULT, EXIT_CODE, EXIT_STATUS.
set -eu

# shellcheck source=keepers.sh
. "${0%/*}/keepers.sh"

fail()
{
    echo "cryo service: $1" >&2
    exit 1
}

[ -n "${STATE_DIRECTORY:-}" ] || fail "STATE_DIRECTORY is not set: this is started by cryo@.service"
images=$STATE_DIRECTORY/run
stopped=$STATE_DIRECTORY/stopped
second=${SECOND:-}/run

# Without `latest`, an image that is there would be neither restarted nor gone on with.
check_images()
{
    newest=
    for image in "$images"/context.*; do
        [ ! -e "$image" ] || newest=$image
    done
    [ -z "$newest" ] || fail "$images has images, but no latest: make that a link to the newest, \
${newest##*/}, or move the directory away to begin anew"
}

# A program under a seccomp filter is not saved, as Cryo's own calls in it would have to pass the filter.
check_filters()
{
    [ "$(sed -n 's/^Seccomp:[[:space:]]*//p' /proc/self/status)" = 0 ] ||
        fail "this unit has a seccomp filter, under which nothing can be saved: cryo(7) names the settings \
that bring one, such as DynamicUser= and MemoryDenyWriteExecute="
}

start()
{
    check_filters
    rm -f "$stopped"
    [ -e "$images/latest" ] || check_images
    set -f # the words of settings are no patterns
    interval=${INTERVAL:-10m}
    if [ -e "$images/latest" ]; then
        # In the session of the unit's main process, which is killed as a group.
        # shellcheck disable=SC2086 # the words of a setting
        exec cr_restart --no-restore-sid --interval "$interval" ${SECOND:+--second "$second"} ${OPTIONS:-} \
            ${RESTART_OPTIONS:-} "$images/latest"
    fi
    [ -n "${PROGRAM:-}" ] || fail "PROGRAM is not set: name the program and its words in /etc/cryo/NAME.conf"
    # shellcheck disable=SC2086 # likewise
    exec cr_run --interval "$interval" --into "$images" ${SECOND:+--second "$second"} ${OPTIONS:-} -- $PROGRAM
}

# SIGTERM has the keeper make a checkpoint, and end. systemd limits how long this may take. It also does
# this after a program that has ended by itself, which MAINPID does not name any more.
stop()
{
    [ -n "${MAINPID:-}" ] || return 0
    : > "$stopped"
    save_last ||
        echo "cryo service: no keeper is there to save the program: the last image remains" >&2
}

# A program that was told to stop may also end with 0, and has not completed anything.
ended()
{
    [ "${EXIT_CODE:-}" = exited ] && [ "${EXIT_STATUS:-}" = 0 ] && [ ! -e "$stopped" ] &&
        [ -d "$images" ] || return 0
    number=1
    while [ -e "$STATE_DIRECTORY/completed.$number" ] || [ -e "${SECOND:-}/completed.$number" ]; do
        number=$((number + 1))
    done
    mv "$images" "$STATE_DIRECTORY/completed.$number"
    if [ -n "${SECOND:-}" ] && [ -d "$second" ]; then
        mv "$second" "$SECOND/completed.$number"
    fi
}

case ${1:-} in
start | stop | ended) "$1" ;;
*) fail "this is started by cryo@.service" ;;
esac
