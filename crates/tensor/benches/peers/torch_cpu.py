"""Times PyTorch on the CPU for the shapes of `cargo bench -p tintype-tensor --bench ops`: best of 0.4 s.

    python torch_cpu.py [threads]
"""

import sys
import time

import torch
import torch.nn.functional as F

torch.set_num_threads(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
torch.set_grad_enabled(False)

# Channels, filters, side, taps, stride, groups.
CONVOLUTIONS = [
    (64, 64, 16, 3, 1, 1), (64, 64, 64, 3, 1, 1), (64, 64, 128, 3, 1, 1), (320, 320, 64, 3, 1, 1),
    (640, 640, 32, 3, 1, 1), (1280, 1280, 16, 3, 1, 1), (512, 512, 64, 3, 1, 1),
    (256, 256, 128, 3, 1, 1), (128, 128, 256, 3, 1, 1), (128, 3, 256, 3, 1, 1),
    (4, 320, 64, 3, 1, 1), (320, 320, 64, 3, 2, 1), (320, 640, 32, 1, 1, 1),
    (960, 320, 64, 1, 1, 1), (256, 256, 64, 3, 1, 256),
]
# Rows, columns, depth of x·wᵀ.
PRODUCTS = [
    (512, 512, 512), (1024, 1024, 1024), (77, 768, 768), (4096, 320, 320), (1, 4096, 4096),
    (512, 2048, 640), (512, 2560, 2560),
]


def best(work) -> float:
    work()
    work()
    fastest, begun = float("inf"), time.time()
    while time.time() - begun < 0.4:
        started = time.perf_counter()
        work()
        fastest = min(fastest, time.perf_counter() - started)
    return fastest


print("torch", torch.__version__, "threads", torch.get_num_threads())
for c, o, side, taps, stride, groups in CONVOLUTIONS:
    x, w, b = torch.randn(1, c, side, side), torch.randn(o, c // groups, taps, taps), torch.randn(o)
    took = best(lambda: F.conv2d(x, w, b, stride=stride, padding=taps // 2, groups=groups))
    flops = 2 * o * (c // groups) * taps**2 * (side // stride) ** 2
    print(f"conv {c}->{o} {side}x{side} {taps}x{taps} stride {stride} groups {groups}:"
          f" {took * 1e6:.1f} µs {flops / took / 1e9:.0f} GFLOP/s")
for m, n, k in PRODUCTS:
    x, w = torch.randn(m, k), torch.randn(n, k)
    took = best(lambda: F.linear(x, w))
    print(f"linear {m}x{n}x{k}: {took * 1e6:.1f} µs {2 * m * n * k / took / 1e9:.0f} GFLOP/s")
