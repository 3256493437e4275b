"""The embedded judge's files: `judge.onnx`, `tokenizer.json`, and `judge.json`, which says what they are.

`PIN` is the SHA-256 of `judge.json`, which holds those of the other two: none of the three can be another than the one
this version was measured with. Empty: this installation has no model. training/pack.py writes the line.
"""

PIN = "8cbcb96cc8a2caf9cf9cd8400f72cc97540ea317af15ec09d48327ded5d42aef"
