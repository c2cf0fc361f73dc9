"""Trains several probes side by side: one stack of parameters, each with its own batches and schedule."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True)
class Batches:
    """What each of S probes sees at each of T steps; probes with fewer steps of their own wait at the end."""

    rows: NDArray[np.int64]  # (T, S, batch)
    real: NDArray[np.bool_]  # (T, S, batch): False where an epoch's last batch is filled up
    steps: NDArray[np.int64]  # (S,)


def draw_batches(training: Sequence[NDArray[np.int64]], epochs: int, batch: int, seed: int) -> Batches:
    """Each probe's training rows in a new order every epoch."""
    per_epoch = np.array([-(-len(rows) // batch) for rows in training])
    steps = per_epoch * epochs
    chosen = np.zeros((int(steps.max()), len(training), batch), dtype=np.int64)
    real = np.zeros(chosen.shape, dtype=bool)
    for repeat, rows in enumerate(training):
        generator = np.random.default_rng([seed, repeat])
        for epoch in range(epochs):
            order = np.full(per_epoch[repeat] * batch, -1, dtype=np.int64)
            order[: len(rows)] = generator.permutation(rows)
            span = slice(epoch * per_epoch[repeat], (epoch + 1) * per_epoch[repeat])
            chosen[span, repeat] = np.maximum(order, 0).reshape(-1, batch)
            real[span, repeat] = (order >= 0).reshape(-1, batch)
    return Batches(chosen, real, steps)


def one_cycle(step: int, steps: NDArray[np.int64], lr: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(learning rate, first momentum) of each repeat at a step: 10 % up, then down, cosine; rate 0 after its end."""
    low, tiny = lr / 25, lr / 25 / 1e4
    top = np.maximum(0.1 * steps - 1, 1e-9)
    rising = np.minimum(step / top, 1.0)
    falling = np.clip((step - top) / (steps - 1 - top), 0.0, 1.0)

    def bend(start: float, middle: float, end: float) -> NDArray[np.float64]:
        up = middle + (start - middle) / 2 * (1 + np.cos(np.pi * rising))
        down = end + (middle - end) / 2 * (1 + np.cos(np.pi * falling))
        return np.asarray(np.where(step <= top, up, down))

    return np.where(step < steps, bend(low, lr, tiny), 0.0), bend(0.95, 0.85, 0.95)


class ProbeStack:
    """S probes with parameters of their own, trained side by side."""

    def __init__(self, width: int, hidden: int, dropout: float, repeats: int, seed: int, device: torch.device) -> None:
        generator = torch.Generator().manual_seed(seed)

        def uniform(*shape: int, fan_in: int) -> Tensor:
            bound = 1 / math.sqrt(fan_in)
            return torch.empty(repeats, *shape).uniform_(-bound, bound, generator=generator)

        first = [torch.ones(repeats, 1, width), torch.zeros(repeats, 1, width)]
        first += [uniform(width, hidden, fan_in=width), uniform(1, hidden, fan_in=width)]
        first += [uniform(hidden, 2, fan_in=hidden), uniform(1, 2, fan_in=hidden)]
        self.parameters = [p.to(device).requires_grad_() for p in first]
        self.dropout = dropout
        self.noise = torch.Generator(device).manual_seed(seed)

    def logits(self, values: Tensor, train: bool) -> Tensor:
        """(S, B, D) -> (S, B, 2)."""
        gain, shift, weight, bias, out_weight, out_bias = self.parameters
        normal = functional.layer_norm(values, values.shape[-1:]) * gain + shift
        inner = functional.gelu(torch.baddbmm(bias, normal, weight))
        if train and self.dropout:
            kept = torch.rand(inner.shape, device=inner.device, generator=self.noise) >= self.dropout
            inner = inner * kept / (1 - self.dropout)
        return torch.baddbmm(out_bias, inner, out_weight)

    def fit(self, values: Tensor, target: Tensor, batches: Batches, lr: float) -> None:
        """AdamW without decay on (N, D) values and (N,) classes, each probe by its own schedule."""
        each_probe = [[p.detach()[number] for p in self.parameters] for number in range(len(batches.steps))]
        optimiser = torch.optim.AdamW([{"params": part} for part in each_probe], weight_decay=0.0, fused=True)
        for step, (rows, real) in enumerate(zip(batches.rows, batches.real, strict=True)):
            place = torch.as_tensor(rows, device=values.device)
            mask = torch.as_tensor(real, device=values.device)
            logits = self.logits(values[place], train=True)
            each = functional.cross_entropy(logits.flatten(0, 1), target[place].flatten(), reduction="none")
            loss = (each.view_as(mask) * mask).sum(1) / mask.sum(1).clamp(min=1)
            gradients = torch.autograd.grad(loss.sum(), self.parameters)
            rates, momenta = one_cycle(step, batches.steps, lr)
            for number, group in enumerate(optimiser.param_groups):
                group["lr"], group["betas"] = float(rates[number]), (float(momenta[number]), 0.999)
                for parameter, gradient in zip(group["params"], gradients, strict=True):
                    parameter.grad = gradient[number] if step < batches.steps[number] else None
            optimiser.step()

    @torch.no_grad()
    def probability(self, values: Tensor) -> Tensor:
        """Probability of class 1 for every row by every probe (S, N)."""
        parts = [
            self.logits(part.expand(len(self.parameters[0]), *part.shape), train=False).softmax(-1)[..., 1]
            for part in torch.split(values, 8192)
        ]
        return torch.cat(parts, dim=1)
