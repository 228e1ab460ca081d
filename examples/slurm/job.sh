#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A job that goes on where it was when its time is over, when it is preempted, or when its node has failed:
# `sbatch job.sh`, with your program in the place of ./app. docs/batch-systems.md explains it.
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@120

job=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID} # an element of an array
job=${job:-$SLURM_JOB_ID}
images=$PWD/images-$job # the number stays when the job is requeued
automatic=(--interval 10m --before-deadline auto)

# Slurm sends SIGUSR1 two minutes before the end: one more image, and the job goes back into the queue.
put_back()
{
    keeper=$(sed -n 's/.*"keeper": *\([0-9]*\).*/\1/p' "$images/keeper.json")
    if [[ $(readlink "/proc/$keeper/exe") == */cryo/keeper ]]; then
        kill -TERM "$keeper"
        while [ -e "/proc/$keeper" ]; do sleep 1; done
    fi
    [ ! -e "$images/latest" ] || scontrol requeue "$job"
}
trap put_back USR1

if [ -e "$images/latest" ]; then
    cr_restart "${automatic[@]}" --keep-output "$images/latest" &
else
    cr_run "${automatic[@]}" --into "$images" ./app &
fi
program=$!
while kill -0 $program 2> /dev/null; do # a signal ends a wait, too
    wait $program
done
wait $program # its status is that of the job
