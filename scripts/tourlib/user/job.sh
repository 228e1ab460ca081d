#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# An MPI job that goes on when one of its nodes is lost: sbatch job.sh LIMIT. With --no-kill Slurm leaves the job
# alone then, and Cryo brings the ranks back on the nodes that are left.
#SBATCH --job-name=primes
#SBATCH --nodes=3
#SBATCH --ntasks-per-node=2
#SBATCH --no-kill
#SBATCH --output=primes.log
cr_run --recover --interval 5s --into images --metrics "/var/lib/cryo-metrics/$USER" \
    mpirun -n 3 --map-by node ./primes "$1"
