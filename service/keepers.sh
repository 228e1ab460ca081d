# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# How what starts programs finds the process that makes their automatic checkpoints. MAINPID is the process of
# which the program is one, or descends from.

# Whether the process is the main one, or descends from it.
is_ours()
{
    pid=$1
    while [ "${pid:-0}" -gt 1 ]; do
        [ "$pid" != "$MAINPID" ] || return 0
        pid=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$pid/status" 2>/dev/null) || return 1
    done
    return 1
}

# Any user may have a program of a keeper's name with such words: real and effective user are this one's,
# and it belongs to the same unit, or job.
is_of_this_unit()
{
    user=$(id -u)
    users=$(sed -n 's/^Uid:[[:space:]]*\([0-9]*\)[[:space:]]*\([0-9]*\)[[:space:]].*/\1 \2/p' \
        "/proc/$1/status" 2>/dev/null) || return 1
    [ "$users" = "$user $user" ] &&
        [ "$(cat "/proc/$1/cgroup" 2>/dev/null)" = "$(cat /proc/self/cgroup)" ]
}

# A keeper has the number of the process that it saves as its only word. Most processes of a node are told by
# their name, for which no other process is started. A child that copies an image to the second directory is
# the same in all but the session, which the keeper leads.
is_keeper()
{
    { read -r name < "/proc/$1/comm"; } 2>/dev/null && [ "$name" = keeper ] || return 1
    { read -r itself _ _ _ _ leader _ < "/proc/$1/stat"; } 2>/dev/null && [ "$itself" = "$leader" ] || return 1
    is_of_this_unit "$1" || return 1
    case $(readlink "/proc/$1/exe" 2>/dev/null) in
    */cryo/keeper*) is_ours "$({ tr '\0' '\n' < "/proc/$1/cmdline" | sed -n 2p; } 2>/dev/null)" ;;
    *) return 1 ;;
    esac
}

# The keeper that saves the program; nothing if there is none.
keeper()
{
    for process in /proc/[0-9]*; do
        if is_keeper "${process#/proc/}"; then
            echo "${process#/proc/}"
            return 0
        fi
    done
}

# Has the keeper make a checkpoint, and waits for its end. False: there is no keeper.
save_last()
{
    found=$(keeper)
    [ -n "$found" ] || return 1
    kill -TERM "$found"
    while is_keeper "$found"; do
        sleep 0.1
    done
}
