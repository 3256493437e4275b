"""Pure decisions: no I/O, clock, randomness, environment, logging or network below this line."""
