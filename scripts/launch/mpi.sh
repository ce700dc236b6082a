#!/bin/sh
# A run of several processes under Open MPI: scripts/launch/mpi.sh 16 funcnet pretrain --out runs/large --mesh data=-1
# JAX finds the coordinator, the number of processes and their numbers in the variables of mpirun.
count=$1
shift
exec mpirun -np "$count" --bind-to none -x PATH "$@"
