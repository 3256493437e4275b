"""The encoder: MiniLM's vectors of tokens, neighbours merged, and a few of its layers over what is left.

Merging `stride` neighbours first makes each layer that much cheaper: a passage of 256 tokens is then read as 128 or 64
places. One number comes out: whether the passage gives orders to the machine that reads it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

MAX_TOKENS = 256


class Encoder(nn.Module):
    def __init__(self, base: nn.Module, *, layers: tuple[int, ...], stride: int) -> None:
        super().__init__()
        self.embeddings = base.embeddings
        self.stride = stride
        width = base.config.hidden_size
        self.layers = nn.ModuleList(base.encoder.layer[at] for at in layers)
        if stride > 1:
            self.merge = nn.Linear(stride * width, width)
            with torch.no_grad():
                # To begin with, the mean of the neighbours: what the layers were made for, a little blurred.
                self.merge.weight.copy_(torch.cat([torch.eye(width) / stride] * stride, dim=1))
                self.merge.bias.zero_()
            self.norm = nn.LayerNorm(width, eps=1e-12)
        self.heads = nn.Sequential(nn.Dropout(0.1), nn.Linear(2 * width, 128), nn.GELU(), nn.Linear(128, 1))

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        states = self.embeddings(input_ids=input_ids, token_type_ids=torch.zeros_like(input_ids))
        mask = attention_mask.to(states.dtype)
        if self.stride > 1:
            # The length is a multiple of the stride: the tokenizer pads.
            grouped = states * mask.unsqueeze(-1)
            grouped = grouped.reshape(grouped.shape[0], -1, self.stride * grouped.shape[2])
            states = self.norm(self.merge(grouped))
            mask = mask.reshape(mask.shape[0], -1, self.stride).max(dim=2).values
        bias = (1.0 - mask)[:, None, None, :] * -10000.0
        for layer in self.layers:
            made = layer(states, attention_mask=bias)
            states = made[0] if isinstance(made, tuple) else made
        weight = mask.unsqueeze(-1)
        mean = (states * weight).sum(1) / weight.sum(1).clamp(min=1.0)
        # One sentence among many: the mean alone would thin it out.
        top = (states + (weight - 1.0) * 10000.0).max(dim=1).values
        return self.heads(torch.cat([mean, top], dim=1)).squeeze(-1)
