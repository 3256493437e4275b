"""The HTTP service: what `lockgate serve` runs. It is given a Host, and imports no store."""
