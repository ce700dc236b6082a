#!/bin/bash
# A run on several nodes under Slurm, with one process per GPU. Submit it with: sbatch scripts/launch/slurm.sh
# JAX finds the coordinator, the number of processes and their numbers in the variables of srun.
#SBATCH --job-name=pretrain
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=8
#SBATCH --time=24:00:00
#SBATCH --signal=TERM@120  # 120 seconds before the end, the run saves a checkpoint and stops
#SBATCH --requeue
set -euo pipefail

out=${OUT:-runs/large} # on a file system that all nodes share
resume=
if [ -e "$out/run.json" ]; then resume=--resume; fi
srun funcnet pretrain --out "$out" --model large --mesh data=-1,fsdp=8 --precision bfloat16 $resume "$@"
