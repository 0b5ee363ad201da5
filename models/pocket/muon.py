"""Muon for matrices (orthogonalized momentum), AdamW for the rest.

Owns the optimizer step. Update scale follows Moonlight (Liu et al. 2025, arXiv 2502.16982): each
matrix's update has the root mean square that AdamW's typically has, so one learning rate serves both.
"""

import collections

import torch

# Quintic Newton-Schulz coefficients of Jordan's Muon: singular values land near 1, not on it.
A, B, C = 3.4445, -4.7750, 2.0315


def orthogonalize(stack, steps=5):
    """The nearest semi-orthogonal matrices to `stack` [n, rows, columns], in the stack's own dtype."""
    tall = stack.shape[1] > stack.shape[2]
    x = stack.transpose(1, 2) if tall else stack
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = x @ x.transpose(1, 2)
        x = A * x + (B * gram + C * gram @ gram) @ x
    return x.transpose(1, 2) if tall else x


class Optimizer:
    """`matrices` by Muon (convolutions flattened to [out, in * h * w]), `others` by AdamW."""

    def __init__(self, matrices, others, decay=0.01, momentum=0.95, betas=(0.9, 0.98), matmul_dtype=torch.bfloat16):
        self.decay, self.momentum, self.matmul_dtype = decay, momentum, matmul_dtype
        groups = collections.defaultdict(list)
        for p in matrices:
            groups[(p.shape[0], p[0].numel())].append(p)
        self.groups = list(groups.items())
        self.buffers = [torch.zeros(len(ps), *shape, device=ps[0].device) for shape, ps in self.groups]
        fused = others[0].is_cuda
        self.adam = torch.optim.AdamW(others, lr=0.0, betas=betas, weight_decay=0.0, fused=fused)

    @torch.no_grad()
    def step(self, rate):
        for group in self.adam.param_groups:
            group["lr"] = rate
        self.adam.step()
        for (shape, parameters), buffer in zip(self.groups, self.buffers):
            gradient = torch.stack([p.grad.reshape(shape) for p in parameters]).float()
            buffer.lerp_(gradient, 1 - self.momentum)
            update = gradient.lerp(buffer, self.momentum).to(self.matmul_dtype)
            update = orthogonalize(update).float() * (0.2 * max(shape) ** 0.5)
            torch._foreach_mul_(parameters, 1 - rate * self.decay)
            pieces = [u.reshape(p.shape) for u, p in zip(update.unbind(0), parameters)]
            torch._foreach_add_(parameters, pieces, alpha=-rate)

    def zero_grad(self):
        self.adam.zero_grad(set_to_none=True)
        for _, parameters in self.groups:
            for p in parameters:
                p.grad = None


def split(module, adam_names=()):
    """(matrices, others) of a module: weights of two or more dimensions, unless a name says otherwise."""
    matrices, others = [], []
    for name, p in module.named_parameters():
        hidden = p.ndim >= 2 and not any(part in name for part in adam_names)
        (matrices if hidden else others).append(p)
    return matrices, others
