"""Simulation: whole nodes on virtual time, network and disks."""
