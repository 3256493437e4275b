"""The encoder: MiniLM's six layers over a case and a passage, or over a text by itself.

Two numbers come out. For a case and a passage: is the call driven by the passage, without or against the user's wish?
For a text by itself: does it carry a request that is foreign to it?
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Encoder(nn.Module):
    def __init__(self, base: nn.Module) -> None:
        super().__init__()
        self.embeddings = base.embeddings
        width = base.config.hidden_size
        self.layers = nn.ModuleList(base.encoder.layer)
        self.heads = nn.Sequential(nn.Dropout(0.1), nn.Linear(3 * width, 128), nn.GELU(), nn.Linear(128, 2))

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        found = self.embeddings
        states = found.word_embeddings(input_ids) + found.position_embeddings.weight[: input_ids.shape[1]]
        states = found.dropout(found.LayerNorm(states + found.token_type_embeddings(token_type_ids)))
        mask = attention_mask.to(states.dtype)
        bias = (1.0 - mask)[:, None, None, :] * -10000.0
        for layer in self.layers:
            made = layer(states, attention_mask=bias)
            states = made[0] if isinstance(made, tuple) else made
        weight = mask.unsqueeze(-1)
        mean = (states * weight).sum(1) / weight.sum(1).clamp(min=1.0)
        # One sentence among many: the mean alone would thin it out.
        top = (states + (weight - 1.0) * 10000.0).max(dim=1).values
        return self.heads(torch.cat([states[:, 0], mean, top], dim=1))
