"""The embedded judge's files: `judge.onnx`, `tokenizer.json`, and `judge.json`, which says what they are.

`PIN` is the SHA-256 of `judge.json`, which holds those of the other two: none of the three can be another than the one
this version was measured with. Empty: this installation has no model. training/pack.py writes the line.
"""

PIN = "b9d920278c399baea5a3a8475fa5bc40e7a4597f1fdb44939d04b16b098f25d7"
