"""What stands in front of an LLM API: who asks, what they ask, and what follows from it."""
