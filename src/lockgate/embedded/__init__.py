"""The embedded judge's files: `judge.onnx`, `tokenizer.json`, and `judge.json`, which says what they are.

`PIN` is the SHA-256 of `judge.json`, which holds those of the other two: none of the three can be another than the one
this version was measured with. Empty: this installation has no model. training/pack.py writes the line.
"""

PIN = "040827c0619aee088d6fc1f059a26582f6355a20cb60e51275814ea5ccc1d93b"
