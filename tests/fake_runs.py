"""Runs that a sweep starts in tests: they take no time, unless they are asked to, and save as true ones do."""

import csv
import json
import sys

import pytest

from experiments import sweep
from experiments.run.folder import RunConfig
from experiments.run.groups import flat
from experiments.sweeps import pool

# Stands in for a run. Its scores follow from its seeds, so that it can be told which ones were pooled; variables say
# which jobs fail or take their time. As a run, it saves and ends when it gets a SIGTERM.
FAKE = """
import json, os, signal, sys, time
from pathlib import Path

options = dict(zip(sys.argv[2::2], sys.argv[3::2]))
out, seed, seeds = Path(options["--out"]), int(options["--seed"]), int(options["--seeds"])

def save(*_):
    (out / "saved").touch()
    sys.exit(143)

signal.signal(signal.SIGTERM, save)
cores = sorted(getattr(os, "sched_getaffinity", lambda _: [])(0))
partial = out / "told.partial"  # so that a test that waits for the file finds all of it
partial.write_text(json.dumps({"pid": os.getpid(), "cores": cores, "environment": dict(os.environ)}))
partial.rename(out / "told")
if os.environ.get("SLOW") in out.name and not (out / "saved").exists():
    time.sleep(30)
if os.environ.get("FAILS") in out.name and not (out / "failed").exists():
    if os.environ.get("ONCE"):
        (out / "failed").touch()
    print("Traceback:\\nMemoryError: too small")
    sys.exit(1)
values = [float(i) for i in range(seed, seed + seeds)]
accuracy, auc = ({"mean": 0.0, "std": 0.0, "values": [value / k for value in values]} for k in (1, 2))
subset = {"accuracy": accuracy, "attention_auc": [auc]}
subsets = {name: subset for name in ("orig", "large", "all")}
results = {"format": 1, "subsets": subsets, "seconds": {"attention": 2, "test": 1}}
(out / "config.json").write_text(options["--config"])
(out / "results.json").write_text(json.dumps(results))
"""


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Puts the fake in the place of runs; the sweep's folder."""
    program = tmp_path / "fake.py"
    program.write_text(FAKE)

    def command(job, out):
        config = json.dumps({"format": 2, **RunConfig("colors", job.preset, flat(job.settings))._asdict()})
        end = ["--out", str(out / job.name), "--config", config]
        return [sys.executable, "-IS", str(program), job.preset, *job.arguments[-4:], *end]

    monkeypatch.setattr(sweep, "command", command)
    monkeypatch.setattr(pool, "POLL", 0.01)
    for name in ("SLOW", "FAILS"):
        monkeypatch.setenv(name, "none of them")
    return tmp_path / "out"


def run(out, *arguments):
    sweep.main(["--jobs", "2", "--retries", "0", "--out", str(out), "colors", *arguments])


def summary(out):
    with (out / "summary.csv").open() as file:
        return list(csv.DictReader(file))


def attempts(out):
    return {log.parent.name: log.read_text().count("fake.py") for log in out.glob("*/log.txt")}


def program(file, text):
    """A shell script, of a name that a program has on other machines."""
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
