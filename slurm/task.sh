#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What Slurm executes in place of a task that is to be saved (sbatch --cryo): it starts the program, or
# brings it back from its last image, stays in front of it, and ends as it ends.
#
#     slurm-task [ARGUMENT ...]
#
# The plug-in (spank_cryo.c) says by CRYO_SLURM_PROGRAM, _STEP (nothing: the batch script), _INTERVAL and
# _DIRECTORY what this is about, and what the user has said.
set -u
trap "exit 143" TERM # until there is a program
trap : USR1

# shellcheck source=../service/keepers.sh
. "${0%/*}/keepers.sh"

say()
{
    echo "cryo: $1" >&2
}

fail()
{
    say "$1"
    exit 1
}

program=${CRYO_SLURM_PROGRAM-}
[[ -n $program && -n ${SLURM_JOB_ID-} ]] || fail "this is started by Slurm, for --cryo"
step=${CRYO_SLURM_STEP-}
directory=${CRYO_SLURM_DIRECTORY-}
automatic=(--interval "${CRYO_SLURM_INTERVAL:-10m}" --before-deadline auto)
unset CRYO_SLURM_PROGRAM CRYO_SLURM_STEP CRYO_SLURM_DIRECTORY CRYO_SLURM_INTERVAL
for command in cr_run cr_restart; do
    command -v $command > /dev/null || fail "there is no $command in PATH"
done

# The number of one element of an array may be that of the array as well.
job=$SLURM_JOB_ID
[ -z "${SLURM_ARRAY_TASK_ID-}" ] || job=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID
directory=${directory%/}
# A name that this task has again when its job has been requeued, and that no other task has.
if [ -z "$directory" ]; then
    directory=cryo-$job${step:+.$step}
elif [ -n "${SLURM_ARRAY_TASK_ID-}" ]; then
    directory=$directory/$SLURM_ARRAY_TASK_ID
fi
[ -z "$step" ] || [ "${SLURM_STEP_NUM_TASKS:-1}" = 1 ] || directory=$directory/$SLURM_PROCID
record=$directory/program
elsewhere="name another directory with --cryo-directory"

# For cr_restart --relocate.
escaped()
{
    local text=${1//\\/\\\\}
    echo "${text//=/\\=}"
}

begin_anew()
{
    # Only the user's own: in others' directories anything may stand in the place of the record.
    if ! (umask 077 && mkdir -p "$directory" && [ -O "$directory" ] && rm -f "$record" &&
        set -C && printf '%s\0' "$@" > "$record"); then
        fail "$directory: cannot have images; $elsewhere"
    fi
    start=(cr_run "${automatic[@]}" --into "$directory" -- "$@")
}

# Of the same program with the same arguments. A batch script has another path on another node.
go_on()
{
    local before=() now=("$@")
    [ ! -O "$record" ] || mapfile -d "" before < "$record"
    [ ${#before[@]} -gt 0 ] ||
        fail "$directory: has images of a program that --cryo has not started: go on with \
cr_restart $directory/latest, or $elsewhere"
    local old=${before[0]}
    [ -n "$step" ] || before[0]=$program
    [ "${before[*]@Q}" = "${now[*]@Q}" ] ||
        fail "$directory: has images of another program, ${before[*]@Q}; $elsewhere"
    start=(cr_restart "${automatic[@]}" --keep-output)
    [ "$old" = "$program" ] || start+=(--relocate "$(escaped "$old")=$(escaped "$program")")
    start+=("$directory/latest")
}

# shellcheck disable=SC2317 # traps call this and the next two
save()
{
    save_last || say "no keeper is there to save the program: its last image remains"
}

# Before the end of the job's time, or when the job is preempted.
# shellcheck disable=SC2317
put_back()
{
    save
    if [ ! -e "$directory/latest" ]; then
        say "there is no image: the job does not go back into the queue"
    elif ! said=$(scontrol requeue "$job" 2>&1); then
        say "the job does not go back into the queue, and goes on unsaved: ${said:-scontrol has failed}"
    fi
}

# Slurm signals either all processes of the job, or this one alone.
# shellcheck disable=SC2317
end()
{
    save
    kill -s TERM "$child" 2> /dev/null
}

# A trap ends a wait, too.
await_child()
{
    while kill -0 "$child" 2> /dev/null; do
        wait "$child" 2> /dev/null # without the shell's own words on how it has ended
    done
    wait "$child"
}

# The program has done its work: what the directory is used for next begins anew.
put_aside()
{
    local number=1 last
    last=$(sed -n 's/.*"keeper": *\([0-9]*\).*/\1/p' "$directory/keeper.json" 2> /dev/null)
    while [ -n "$last" ] && is_keeper "$last"; do # that of the program which has ended
        sleep 0.1
    done
    while [ -e "$directory.completed.$number" ]; do
        number=$((number + 1))
    done
    mv "$directory" "$directory.completed.$number"
}

if [ -e "$directory/latest" ]; then
    go_on "$program" "$@"
else
    begin_anew "$program" "$@"
fi
export CRYO_SLURM_JOB=$SLURM_JOB_ID
exec 3<&0 # a shell gives others in the background no input
(
    trap - HUP INT QUIT USR1 USR2 TERM
    exec "${start[@]}"
) <&3 3<&- &
child=$!
exec 3<&- < /dev/null
MAINPID=$child
for signal in HUP INT QUIT USR1 USR2; do
    # shellcheck disable=SC2064 # the child that there is now
    trap "kill -s $signal $child 2> /dev/null" $signal
done
trap end TERM
[ -n "$step" ] || trap put_back USR1
await_child
status=$?
[ $status != 0 ] || put_aside
exit $status
