"""Serving: how long an answer of `bert.inference` takes, on this machine, with this model."""

from funcnet.tasks.serving.bench import Latency, measure
