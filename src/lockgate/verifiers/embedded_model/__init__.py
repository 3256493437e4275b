"""The embedded judge's files: `judge.onnx`, `tokenizer.json`, and `judge.json`, which says what they are.

`PIN` is the SHA-256 of `judge.json`, which holds those of the other two: none of the three can be another than the one
this version was measured with. Empty: this installation has no model. training/pack.py writes the line.
"""

PIN = "3760ecc1fe4f856321050b4209614903c1d144dd4bed253b4498e587cbfd30e8"
