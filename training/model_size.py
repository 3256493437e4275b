"""How much the encoder reads at once, in tokens."""

# A case and a passage together, or a text; the case has at most so many of them.
MAX_TOKENS = 192
MAX_CASE = 96
