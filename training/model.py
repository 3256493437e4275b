"""The encoder: MiniLM's vectors of tokens, neighbours merged, and a few of its layers over what is left.

Merging `stride` neighbours first makes each layer that much cheaper: a passage of 256 tokens is then read as 128 or 64
places. Two numbers come out: whether the passage gives orders to the machine that reads it, which is what a call is
weighed with, and whether it carries a request that is foreign to it, which is what a whole text is rated by.
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
        self.heads = nn.Sequential(nn.Dropout(0.1), nn.Linear(2 * width, 128), nn.GELU(), nn.Linear(128, 2))

    def states(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor]:
        """What it makes of each place, and which places there are."""
        # All tokens are of one type: what that adds is added to the places, once, instead of to each token.
        places = self.embeddings.position_embeddings.weight + self.embeddings.token_type_embeddings.weight[0]
        states = self.embeddings.word_embeddings(input_ids) + places[: input_ids.shape[1]]
        states = self.embeddings.dropout(self.embeddings.LayerNorm(states))
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
        return states, mask

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.answer(*self.states(input_ids, attention_mask))

    def answer(self, states: Tensor, mask: Tensor) -> Tensor:
        weight = mask.unsqueeze(-1)
        mean = (states * weight).sum(1) / weight.sum(1).clamp(min=1.0)
        # One sentence among many: the mean alone would thin it out.
        top = (states + (weight - 1.0) * 10000.0).max(dim=1).values
        return self.heads(torch.cat([mean, top], dim=1))


@torch.no_grad()
def thinned(model: Encoder, ids: Tensor, mask: Tensor, cells: int) -> None:
    """Leaves each layer its `cells` most useful inner cells, by what they pass on of these texts.

    Of the others their mean stays.
    """
    model.eval()
    for layer in model.layers:
        inner, outer = layer.intermediate.dense, layer.output.dense
        heard: list[Tensor] = []
        hook = layer.intermediate.register_forward_hook(lambda *seen, into=heard: into.append(seen[2]))
        there = model.states(ids, mask)[1]
        hook.remove()
        passed = heard[0][there > 0]
        use = passed.std(0) * outer.weight.norm(dim=0)
        kept = use.topk(cells).indices.sort().values
        left = torch.ones(len(use), dtype=torch.bool)
        left[kept] = False
        outer.bias += outer.weight[:, left] @ passed[:, left].mean(0)
        inner.weight, inner.bias = nn.Parameter(inner.weight[kept]), nn.Parameter(inner.bias[kept])
        outer.weight = nn.Parameter(outer.weight[:, kept])
        inner.out_features = outer.in_features = cells
