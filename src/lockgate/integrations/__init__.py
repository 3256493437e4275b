"""Plugs for the agents and clients people already run."""
