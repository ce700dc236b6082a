"""Torch's operations on CPU, which a tape records as the nodes of a backward graph."""
