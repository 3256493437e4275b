"""Asking model providers: one client for all of them, and two pure functions for each."""
