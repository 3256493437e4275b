"""The embedded judge's files: `judge.onnx`, `tokenizer.json`, and `judge.json`, which says what they are.

`PIN` is the SHA-256 of `judge.json`, which holds those of the other two: none of the three can be another than the one
this version was measured with. Empty: this installation has no model. training/pack.py writes the line.
"""

PIN = "c7c0882749bf49fdd673cf0c6f30a0701ef3b74f4c401924ef62b75b445ef11b"
