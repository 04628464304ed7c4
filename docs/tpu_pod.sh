#!/bin/bash
# One run on all machines of a Cloud TPU pod, as one.
#
#     TPU=NAME ZONE=ZONE docs/tpu_pod.sh EXPERIMENT [PRESET] [--setting value ...] --out FOLDER
#     TPU=pod ZONE=us-central2-b docs/tpu_pod.sh triangles weak --seeds 16 --out /mnt/shared/triangles
#
# Each machine needs the checkout in ~/jattn, with an environment in .venv:
#
#     gcloud compute tpus tpu-vm scp --recurse --worker=all --zone=$ZONE . $TPU:jattn
#     gcloud compute tpus tpu-vm ssh $TPU --worker=all --zone=$ZONE --command="cd jattn &&
#         python3 -m venv .venv && .venv/bin/pip install --quiet -e . 'jax[tpu]'"
#
# The first machine alone writes the run's folder. Put it on a disk that outlives the pod, and the same command resumes
# the run on another one.

set -euo pipefail
: "${TPU:?is the name of the pod}" "${ZONE:?is where the pod is}" "${1:?names the experiment}"

printf -v settings ' %q' "${@:2}"
exec gcloud compute tpus tpu-vm ssh "$TPU" --zone="$ZONE" --worker=all \
    --command="cd jattn && .venv/bin/jattn $1$settings --coordinator auto"
